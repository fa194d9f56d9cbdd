"""The commands of the documents, taken out and run: `blocks.py` reads, `shell.py` runs, `stage.py` is what they find.

How to write a block, for who writes a document:

    ```console                  lines that begin with `$ ` are commands; the others show what is said, not compared
    ```console checked          each of those lines has to be said, in this order; `…` stands for anything
    ```sh                       every line is a command (here-documents and \\ at the end of a line as in a shell)
    ```sh not-run: REASON       cannot run here, and says why (also `console not-run: REASON`)

A command has to end with 0, or with the code that its comment names: `$ callboard status   # exits 1: …`. One that
ends with `&` goes on in the background until the document ends, and the next is begun when it has said that it is
ready. One whose comment says `until ctrl-C` gets that after some seconds. `make TARGET` is tried with `make -n` only.
The port of 127.0.0.1 that a command in the background names is another one each time it runs, in all commands.

A document is one shell from its first to its last command, in an empty directory with `docs` and `deploy` in it, and
with a database of its own in DATABASE_URL, on which the desk has worked: see `stage.py`. The README's is empty.
"""
