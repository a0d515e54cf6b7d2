#include "shoal/config/config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "shoal/base/status.h"
#include "shoal/config/build_internal.h"
#include "shoal/config/check_internal.h"
#include "shoal/config/json_internal.h"

namespace shoal::config {
namespace {

constexpr size_t kMaxPathBytes = 4096;

// One Status for all faults, in the document's order.
Status Report(std::string_view source, Places places, std::vector<Fault> faults) {
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.position.line, a.position.column) <
           std::tie(b.position.line, b.position.column);
  });
  const bool unsupported = std::all_of(faults.begin(), faults.end(),
                                       [](const Fault& fault) { return fault.unsupported; });
  const bool is_cut = static_cast<int64_t>(faults.size()) > kMaxFaults;
  if (is_cut) faults.resize(kMaxFaults);
  std::string text = fmt::format("{}: {}{} fault{}", source, is_cut ? "more than " : "",
                                 faults.size(), faults.size() == 1 ? "" : "s");
  for (const Fault& fault : faults) {
    const std::string place =
        places == Places::kHide ? std::string(":")
                                : fmt::format(":{}:{}", fault.position.line, fault.position.column);
    text += fmt::format("\n{}{} {}{}{}", source, place, fault.path, fault.path.empty() ? "" : ": ",
                        fault.message);
  }
  return unsupported ? Status::Unsupported("config", text)
                     : Status::InvalidArgument("config", text);
}

}  // namespace

Result<Config> ParseConfigText(std::string_view text, std::string_view source_name, Places places) {
  const std::string source = Printable(source_name, kMaxPathBytes);
  Document document = ReadJson(text);
  if (!document.complete) return Report(source, places, std::move(document.faults));
  Checked checked = CheckDocument(document.root, places);
  Config config = BuildConfig(&checked);
  std::vector<Fault> faults = std::move(document.faults);
  faults.insert(faults.end(), checked.faults.begin(), checked.faults.end());
  if (!faults.empty()) return Report(source, places, std::move(faults));
  std::stable_sort(checked.notes.begin(), checked.notes.end(),
                   [](const Note& a, const Note& b) { return a.line < b.line; });
  config.source = source;
  config.notes = std::move(checked.notes);
  return config;
}

Result<Config> ParseConfigFile(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const std::string shown = Printable(path.string(), kMaxPathBytes);
  if (!std::filesystem::exists(status)) {
    return Status::NotFound("config", fmt::format("no file {}", shown));
  }
  if (std::filesystem::is_directory(status)) {
    return Status::IoError("config", fmt::format("{} is a directory", shown));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(kMaxDocumentBytes) + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && !file.eof())) {
    return Status::IoError("config", fmt::format("cannot read {}", shown));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return ParseConfigText(text, path.filename().string());
}

}  // namespace shoal::config
