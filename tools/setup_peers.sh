#!/usr/bin/env bash
# Makes .venv-peers: the environment with what Shoal is compared with (tools/requirements-peers.txt).
#
# It stands on .venv (a .pth file shows that environment's packages), so both compare with the very same torch and the
# very same build of Shoal, and torch is not installed twice. What the peers need in other versions is installed into
# .venv-peers and comes first.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv-peers/.shoal-setup
key=$(cat tools/requirements-peers.txt tools/setup_peers.sh .venv/.shoal-setup | sha256sum)
[ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && exit 0

rm -rf .venv-peers
.venv/bin/python -m venv --without-pip .venv-peers
site() { "$1" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }
base=$(site .venv/bin/python)
# addsitedir, not a plain path: the .pth files of .venv (Shoal's own, a base Python's) count too.
echo "import site; site.addsitedir('$base')" >"$(site .venv-peers/bin/python)/_shoal_base.pth"

echo "[peers] installing $(grep -v '^#' tools/requirements-peers.txt | tr '\n' ' ')into .venv-peers"
# No isolation: DeepSpeed's setup.py imports torch. No operator is compiled ahead (its default), no GPU is asked for.
DS_ACCELERATOR=cpu .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check \
  --no-build-isolation -r tools/requirements-peers.txt
.venv-peers/bin/python -c 'import torch; print("[peers] torch", torch.__version__)'
echo "$key" >"$stamp"
