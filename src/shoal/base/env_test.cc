#include "shoal/base/env.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shoal {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The names in the first column of the first table of docs/envvars.md.
std::set<std::string> DocumentedNames() {
  std::ifstream file(fs::path(SHOAL_SOURCE_DIR) / "docs" / "envvars.md");
  std::set<std::string> names;
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("## ")) break;
    if (line.starts_with("| `")) names.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return names;
}

TEST(EnvTest, DocumentationListsExactlyTheVariablesThatAreRead) {
  std::set<std::string> names;
  for (const EnvVarInfo& info : EnvVars()) names.emplace(info.name);
  EXPECT_EQ(names, DocumentedNames());
}

TEST(EnvTest, TheTableIsInTheOrderOfTheEnum) {
  int index = 0;
  for (const EnvVarInfo& info : EnvVars()) EXPECT_EQ(static_cast<int>(info.variable), index++);
}

TEST(EnvTest, OnlyEnvCcReadsTheEnvironment) {
  std::vector<std::string> readers;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(SHOAL_SOURCE_DIR) / "src" / "shoal")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".cc") && !name.ends_with(".h")) continue;
    if (name.ends_with("_test.cc")) continue;
    if (ReadFile(entry.path()).find("getenv(") != std::string::npos) readers.push_back(name);
  }
  EXPECT_EQ(readers, std::vector<std::string>{"env.cc"});
}

TEST(EnvTest, UnsetAndEmptyAreAbsent) {
  unsetenv("RANK");
  EXPECT_EQ(ReadEnv(EnvVar::kRank), std::nullopt);
  EXPECT_EQ(RankForMessages(), "?");
  setenv("RANK", "", 1);
  EXPECT_EQ(ReadEnv(EnvVar::kRank), std::nullopt);
  setenv("RANK", "3", 1);
  EXPECT_EQ(ReadEnv(EnvVar::kRank), "3");
  EXPECT_EQ(RankForMessages(), "3");
}

}  // namespace
}  // namespace shoal
