"""An MCP server over stdio that follows the protocol up to its answer to a call: `python mcp_evil.py ANSWER`.

`{id}` in ANSWER is replaced, whatever it then is; `flood` is many notifications before an answer.
"""

import json
import sys


def say(text: str) -> None:
    """One line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def result(number: int, value: object) -> None:
    """A proper answer."""
    say(json.dumps({"jsonrpc": "2.0", "id": number, "result": value}))


def main(answer: str) -> None:
    """Until stdin ends."""
    schema = {"type": "object", "properties": {"x": {}}}
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "evil", "version": "1"}
                result(
                    message["id"],
                    {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
                )
            case "tools/list":
                result(message["id"], {"tools": [{"name": "act", "inputSchema": schema}]})
            case "tools/call" if answer == "flood":
                for number in range(500):
                    progress = {"progressToken": 1, "progress": number}
                    say(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}))
                result(message["id"], {"content": [{"type": "text", "text": "ok"}]})
            case "tools/call":
                say("not JSON {")
                say(answer.replace("{id}", str(message["id"])))


if __name__ == "__main__":
    main(sys.argv[1])
