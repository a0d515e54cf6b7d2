// KernelLibrary: finds kernel images, loads them through the driver API when first used, launches.
//
// Goals: nothing happens at load of the process, libcuda is opened by the first call that needs it;
// no context is created (a real stream's own, else the device's primary context); an image is
// loaded once, also when threads race or the stream is being captured. Non-goals: sizes, tiles and
// dtypes of any op (`<op>.h` of this room), memory (the caller's), synchronisation.
//
// Rejected: the CUDA runtime (links a toolkit, static initialisers), fatbins (a site cannot add an
// architecture), a launch that takes the function's own context (a stream of another one would be
// refused).
//
// Ownership: kernels and indices live as long as the library. It frees nothing in the driver when
// it ends: at process exit the driver may be gone already. Keep one per process (`OfProcess`) or
// one per test.
//
// Failures: every message begins with "[device]" and says what helps. In a child that was forked
// after the driver was initialised every call is Unsupported: "CUDA was initialised before fork".
//
// Thread-safety: all methods may be called from several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/device/facts.h"
#include "shoal/device/image_index.h"
#include "shoal/device/select.h"

namespace shoal::device {

// A stream as the driver knows it (CUstream, cudaStream_t): null is the legacy default stream.
using StreamHandle = void*;

// A kernel of one device, resolved. Made and owned by a KernelLibrary.
class Kernel;

// How a kernel is launched. Sizes in blocks and threads, as in CUDA.
struct LaunchConfig {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  std::array<uint32_t, 3> cluster = {1, 1, 1};  // thread block cluster; 1,1,1: none
  int64_t shared_bytes = 0;                     // dynamic; opted in where it is over 48 KiB
  // May begin before the previous kernel of the stream ends (griddepcontrol in the kernel).
  bool is_programmatic = false;
  StreamHandle stream = nullptr;
};

// A tiled tensor map (CUtensorMap) for TMA. Strides in bytes, of dims 1 and up.
struct TensorMapSpec {
  int32_t data_type = 0;  // CUtensorMapDataType: 6 float16, 7 float32, 9 bfloat16
  int32_t rank = 0;       // 1 to 5
  void* address = nullptr;
  std::array<uint64_t, 5> sizes = {};
  std::array<uint64_t, 4> strides = {};
  std::array<uint32_t, 5> box = {};
  std::array<uint32_t, 5> element_strides = {1, 1, 1, 1, 1};
  int32_t swizzle = 0;       // CUtensorMapSwizzle: 0 none, 1 32 B, 2 64 B, 3 128 B
  int32_t l2_promotion = 2;  // CUtensorMapL2promotion: 0 none, 1 64 B, 2 128 B, 3 256 B
  bool nan_fill = false;     // elements out of bounds are not-a-number instead of 0
};

class KernelLibrary {
 public:
  struct Options {
    // Searched in this order. Default: the folders of SHOAL_KERNELS_PATH, then those of the
    // installation (docs/archs.md).
    std::vector<std::string> folders = DefaultFolders();
    std::string driver = "libcuda.so.1";
    // Turns fallbacks (PTX) into errors. Default: SHOAL_STRICT_KERNELS.
    bool is_strict = DefaultStrict();
  };

  static std::vector<std::string> DefaultFolders();
  static bool DefaultStrict();

  explicit KernelLibrary(Options options);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // The library with the default options that everything in this process shares which has no
  // context to pass (operators of torch). Made by the first call.
  static KernelLibrary& OfProcess();

  const Options& options() const;

  // --- Without the driver ---

  // An op's index; read once. NotFound if no folder has the op.
  Result<const OpIndex*> Index(std::string_view op);

  // --- With the driver, which the first of these calls opens ---

  Result<int32_t> NumDevices();
  // Lives as long as the library.
  Result<const DeviceFacts*> Facts(int32_t device);

  // Loads and resolves every kernel that `device` would use of each op, so that a later launch
  // loads nothing.
  Status Prepare(int32_t device, const std::vector<std::string>& ops);

  // The kernel `name` (a name expression of op.json) of the best image of `family`. Loads the image
  // where it is not yet loaded; costs a lock and a lookup afterwards: keep the pointer where that
  // counts. Unsupported naming op, family and device if no image serves; in strict mode also for
  // PTX.
  Result<const Kernel*> Resolve(int32_t device, std::string_view op, std::string_view family,
                                std::string_view name);

  // What Resolve would choose, for reports.
  Result<Selection> Select(int32_t device, std::string_view op, std::string_view dtype,
                           const std::vector<std::string>& allowed = {});

  // Enqueues one launch and returns; no synchronisation, no allocation. `args` points at one
  // pointer per parameter, which are read before it returns.
  Status Launch(const Kernel& kernel, const LaunchConfig& config, void** args);
  // The same for a kernel that takes one struct by value.
  template <typename Args>
  Status LaunchWith(const Kernel& kernel, const LaunchConfig& config, const Args& args) {
    void* pointers[] = {const_cast<Args*>(&args)};
    return Launch(kernel, config, pointers);
  }

  // Blocks of `threads` threads and `shared_bytes` dynamic shared memory that fit a multiprocessor.
  Result<int32_t> Occupancy(const Kernel& kernel, int32_t threads, int64_t shared_bytes);

  // Fills the 128 bytes at `map` (64-byte aligned). Unsupported below capability 9.0.
  Status EncodeTensorMap(const TensorMapSpec& spec, void* map);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The row of the index that a kernel came from.
const KernelRow& RowOf(const Kernel& kernel);
// The image that holds it.
const ImageRow& ImageOf(const Kernel& kernel);

}  // namespace shoal::device
