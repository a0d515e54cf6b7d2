// OpIndex: one op's index.json, which tools/build_kernels.py writes beside the images, and the
// union of the indices of several folders.
//
// Goals: facts for selection and reports without opening a driver; a damaged or foreign file is a
// Status that names it. Bytes of images are read and checked when they are loaded (`ReadImage`).
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::device {

// One kernel inside an image.
struct KernelRow {
  std::string name;    // the name expression of op.json: "shoal::optim_kernels::FinishSum"
  std::string symbol;  // its name in the image
  int32_t registers = 0;
  int64_t shared_bytes = 0;  // static
  int64_t spill_bytes = 0;
};

// One file with code for one architecture.
struct ImageRow {
  std::string folder;  // where the file is
  std::string file;
  std::string family;
  std::string part;    // empty where the family is one program
  int32_t arch = 0;    // 90 of sm_90a
  char suffix = '\0';  // 'a': this capability alone; 'f': its family; 0: see select.h
  bool is_ptx = false;
  int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
  std::vector<KernelRow> kernels;

  // "sm_90a", "compute_80".
  std::string Target() const;
};

// On devices `first` to `last`, `dtype` is served by the first of `families` with an image.
struct PromiseRow {
  std::string dtype;
  std::vector<std::string> families;
  int32_t first = 0;
  int32_t last = 0;
};

// `dtype` is not to be had on devices below `below`, which is no failure.
struct NotOfferedRow {
  std::string dtype;
  int32_t below = 0;
  std::string why;
};

struct OpIndex {
  std::string op;
  std::string compiler;
  std::string arch_list;
  std::string arch_list_source;
  std::vector<PromiseRow> promise;
  std::vector<NotOfferedRow> not_offered;
  std::vector<ImageRow> images;
};

// Parses an index.json that lies in `folder`. Corruption naming the folder and the key for anything
// that the build tool would not write, such as a file name with a slash.
Result<OpIndex> ParseIndex(std::string_view text, std::string_view folder);

// Reads `<folder>/<op>/index.json` of each folder that has one and joins them: rows of an earlier
// folder win over those of a later one for the same file name, the tables are the first one's.
// NotFound if no folder has it.
Result<OpIndex> LoadIndex(const std::vector<std::string>& folders, std::string_view op);

// The ops that any of the folders holds, sorted.
std::vector<std::string> ListOps(const std::vector<std::string>& folders);

// An image's bytes after comparing length and hash with its row. Corruption or IoError naming the
// file. PTX ends with a 0 byte, as the driver wants it.
Result<std::string> ReadImage(const ImageRow& row);

}  // namespace shoal::device
