"""A model hub on this machine: enough of its protocol to list a model and to download its files.

Run as a program (with HF_ENDPOINT set before anything is imported) it loads the model of a folder
by name from such a hub, then again without the hub, then two that do not exist, and prints what
came of it as JSON.
"""

import hashlib
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0" * 40
NAME = "somebody/a-model"


def handler(folder: Path) -> type[BaseHTTPRequestHandler]:
    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path in (f"/api/models/{NAME}", f"/api/models/{NAME}/revision/main"):
                files = [{"rfilename": file.name} for file in folder.iterdir()]
                info = {"id": NAME, "sha": COMMIT, "siblings": files}
                return self.answer(200, json.dumps(info).encode())
            file = folder / Path(path).name
            if path.startswith(f"/{NAME}/resolve/") and file.is_file():
                return self.answer(200, file.read_bytes())
            known = f"/{NAME}/" in path
            return self.answer(404, b"{}", "EntryNotFound" if known else "RepoNotFound")

        def answer(self, status: int, body: bytes, error: str = "") -> None:
            self.send_response(status)
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(body)))
            if error:
                self.send_header("X-Error-Code", error)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Hub


def outcome(name: str) -> dict[str, object]:
    from probing.models.errors import ModelError
    from probing.models.pretrained import load_model, revision_of

    start = time.perf_counter()
    try:
        model, _ = load_model(name)
        found: dict[str, object] = {
            "weights": float(sum(p.detach().sum() for p in model.parameters())),
            "revision": revision_of(name),
        }
    except ModelError as error:
        found = {"error": str(error)}
    return found | {"seconds": time.perf_counter() - start}


def main(folder: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
    found = {"there": outcome(NAME), "unknown": outcome("somebody/no-model")}
    server.shutdown()
    server.server_close()
    found |= {"cached": outcome(NAME), "offline": outcome("somebody/other")}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
