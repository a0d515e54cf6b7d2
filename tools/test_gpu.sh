#!/usr/bin/env bash
# tools/test_gpu.sh BUNDLE: on a GPU host, builds torch/ and bindings/ of a device bundle (tools/device_bundle.py)
# against that host's torch, runs the bundle's C++ tests, then the Python tests that are marked `gpu`.
# PYTHON names the Python with torch (default: python3). Arguments after BUNDLE go to pytest.
set -euo pipefail
bundle=$(cd "${1:?usage: tools/test_gpu.sh BUNDLE}" && pwd)
shift
python=$(command -v "${PYTHON:-python3}")
[ -e "$bundle/python/shoal/libshoal_core.so" ] || { echo "test-gpu: $bundle is no device bundle (make device-bundle)" >&2; exit 1; }

export PYTHONPATH="$bundle/python:$bundle/third_party"
cmake -G Ninja -S "$bundle" -B "$bundle/build" --log-level=WARNING -DSHOAL_BUILD_TORCH=ON -DSHOAL_BUILD_TESTS=OFF \
  -DSHOAL_CORE_BUNDLE="$bundle" -DPython_EXECUTABLE="$python"
ninja -C "$bundle/build" --quiet

failed=0
for program in "$bundle"/bin/*_test; do
  LD_LIBRARY_PATH="$bundle/python/shoal" "$program" --gtest_brief=1 || { failed=1; echo "test-gpu: $program failed" >&2; }
done

rc=0
(cd "$bundle" && "$python" -m pytest tests/python/gpu tests/python/integration/test_fork_safety.py -m gpu "$@") || rc=$?
if [ "$rc" -eq 5 ]; then
  echo "test-gpu: no test is marked 'gpu': no Python test ran"
elif [ "$rc" -ne 0 ]; then
  failed=1
fi
exit "$failed"
