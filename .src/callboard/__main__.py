"""`python -m callboard` is the command line."""

from callboard.service.cli import main

if __name__ == "__main__":
    main()
