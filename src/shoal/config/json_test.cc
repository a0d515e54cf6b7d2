#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "shoal/config/json_internal.h"
#include "shoal/config/utf8_internal.h"

namespace shoal::config {
namespace {

// "line:column path: message" of the only fault.
std::string OnlyFault(std::string_view text) {
  const Document document = ReadJson(text);
  if (document.faults.size() != 1) return std::to_string(document.faults.size()) + " faults";
  const Fault& fault = document.faults[0];
  return std::to_string(fault.position.line) + ":" + std::to_string(fault.position.column) + " " +
         fault.path + ": " + fault.message;
}

TEST(ReadJson, KeepsPlacesOfKeysAndValues) {
  const Document document = ReadJson("{\n  \"a\": 1,\n  \"b\": {\"c\": [true, \"x\"]}\n}\n");
  ASSERT_TRUE(document.complete);
  ASSERT_TRUE(document.faults.empty());
  ASSERT_EQ(document.root.members.size(), 2U);
  EXPECT_EQ(document.root.members[1].position.line, 3);
  EXPECT_EQ(document.root.members[1].position.column, 3);
  const Node* list = document.root.members[1].value.Find("c");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->items[1].position.line, 3);
  EXPECT_EQ(list->items[1].position.column, 21);
  EXPECT_EQ(list->items[1].text, "x");
}

TEST(ReadJson, AcceptsCommentsTrailingCommasAndByteOrderMark) {
  const Document document =
      ReadJson("\xEF\xBB\xBF// first\n{ /* a\n b */ \"a\": [1, 2,], // end\n}");
  ASSERT_TRUE(document.complete);
  EXPECT_TRUE(document.faults.empty());
  EXPECT_EQ(ToJson(document.root), "{\"a\": [1, 2]}");
}

TEST(ReadJson, CommentMarksInsideTextsAreText) {
  const Document document = ReadJson("{\"a\": \"http://x/*y*/\"}");
  EXPECT_EQ(document.root.Find("a")->text, "http://x/*y*/");
}

TEST(ReadJson, ReadsNumbers) {
  const Document document = ReadJson("[{\"a\": [0, -0.5, 5e8, 1.259000e+03, 1E-2]}]");
  const Node& list = *document.root.items[0].Find("a");
  EXPECT_EQ(list.items[0].number, 0.0);
  EXPECT_EQ(list.items[1].number, -0.5);
  EXPECT_EQ(list.items[2].number, 5e8);
  EXPECT_EQ(list.items[3].number, 1259.0);
  EXPECT_EQ(list.items[4].number, 0.01);
}

TEST(ReadJson, NumbersMustBeFiniteAndWellFormed) {
  EXPECT_EQ(OnlyFault("{\"a\": inf}"), "1:7 a: must be a finite number, found inf");
  EXPECT_EQ(OnlyFault("{\"a\": -Infinity}"), "1:7 a: must be a finite number, found -Infinity");
  EXPECT_EQ(OnlyFault("{\"a\": NaN}"), "1:7 a: must be a finite number, found NaN");
  EXPECT_EQ(OnlyFault("{\"a\": 1e999}"), "1:7 a: 1e999 is outside the range of a double");
  EXPECT_EQ(OnlyFault("{\"a\": 007}"), "1:7 a: 007 is not a number as JSON writes them");
  EXPECT_EQ(OnlyFault("{\"a\": +1}"), "1:7 a: +1 is not a number as JSON writes them");
  EXPECT_EQ(OnlyFault("{\"a\": .5}"), "1:7 a: .5 is not a number as JSON writes them");
  EXPECT_EQ(OnlyFault("{\"a\": 1.}"), "1:7 a: 1. is not a number as JSON writes them");
  EXPECT_EQ(OnlyFault("{\"a\": 1e}"), "1:7 a: 1e is not a number as JSON writes them");
}

TEST(ReadJson, BareWordsAreReportedAndReadingGoesOn) {
  const Document document =
      ReadJson("{\"a\": True, \"b\": None, \"c\": yes, \"d\": 'x', \"e\": 1}");
  ASSERT_TRUE(document.complete);
  ASSERT_EQ(document.faults.size(), 4U);
  EXPECT_EQ(document.faults[0].message, "found True; JSON writes true");
  EXPECT_EQ(document.faults[1].message, "found None; JSON writes null");
  EXPECT_EQ(document.faults[2].message, "found the bare word yes; texts need double quotes");
  EXPECT_EQ(document.faults[3].path, "d");
  EXPECT_EQ(document.root.Find("e")->number, 1.0);
  EXPECT_EQ(document.root.Find("a")->kind, Kind::kBad);
}

TEST(ReadJson, DuplicateKeysNameBothLines) {
  EXPECT_EQ(OnlyFault("{\"s\": {\"a\": 1,\n\"b\": 2,\n \"a\": 1}}"),
            "3:2 s.a: duplicate key; first given in line 1");
  EXPECT_EQ(ReadJson("{\"a\": {\"x\": 1}, \"b\": {\"x\": 1}}").faults.size(), 0U);
}

TEST(ReadJson, MissingCommaIsReportedAndReadingGoesOn) {
  const Document document = ReadJson("{\"a\": 1\n \"b\": 2}");
  ASSERT_TRUE(document.complete);
  ASSERT_EQ(document.faults.size(), 1U);
  EXPECT_EQ(document.faults[0].position.line, 1);
  EXPECT_EQ(document.faults[0].message, "expected a comma here");
  EXPECT_EQ(document.root.Find("b")->number, 2.0);
}

TEST(ReadJson, BrokenSyntaxStopsWithItsPlace) {
  EXPECT_EQ(OnlyFault(""), "1:1 : the document ends here, expected a value");
  EXPECT_EQ(OnlyFault("{\"a\": 1"), "1:8 : the document ends here, expected a comma or }");
  EXPECT_EQ(OnlyFault("{\"a\" 1}"), "1:6 : expected \":\" after the key \"a\", found \"1\"");
  EXPECT_EQ(OnlyFault("{a: 1}"), "1:2 : expected a key in double quotes or }, found \"a\"");
  EXPECT_EQ(OnlyFault("{\"a\": }"), "1:7 a: expected a value, found \"}\"");
  EXPECT_EQ(OnlyFault("{} {}"), "1:4 : found more text after the end of the document");
  EXPECT_EQ(OnlyFault("{\"a\": \"x\ny\"}"),
            "1:9 a: a text must end on its line (control characters are written as escapes)");
  EXPECT_EQ(OnlyFault("{\n# no\n}"), "2:1 : comments start with //, found #");
  EXPECT_EQ(OnlyFault("{} /* open"), "1:4 : this comment is never closed with */");
  EXPECT_EQ(OnlyFault("[1]"), "1:1 : a configuration must be an object { ... }");
  EXPECT_FALSE(ReadJson("[1]").complete);
}

TEST(ReadJson, DecodesEscapes) {
  const Document document = ReadJson(R"({"a": "\"\\\/\n\u00e9\ud83d\ude00"})");
  ASSERT_TRUE(document.faults.empty());
  EXPECT_EQ(document.root.Find("a")->text, "\"\\/\n\xC3\xA9\xF0\x9F\x98\x80");
}

TEST(ReadJson, RefusesBadEscapesAndLoneSurrogates) {
  for (const std::string_view text :
       {R"({"a": "\x"})", R"({"a": "\u12"})", R"({"a": "\ud800"})", R"({"a": "\ude00"})",
        R"({"a": "\ud800\u0041"})", R"({"a": "\)"}) {
    EXPECT_EQ(OnlyFault(text).substr(0, 2), "1:") << text;
    EXPECT_FALSE(ReadJson(text).complete) << text;
  }
}

TEST(ReadJson, RefusesDeepNestingAndHugeInput) {
  const std::string deep = "{\"a\": " + std::string(100000, '[');
  EXPECT_NE(OnlyFault(deep).find("nested deeper than 64 levels"), std::string::npos);
  const std::string huge(static_cast<size_t>(kMaxDocumentBytes) + 1, ' ');
  EXPECT_NE(OnlyFault(huge).find("larger than the limit of 1048576 bytes"), std::string::npos);
}

TEST(ReadJson, RefusesBytesThatAreNotUtf8) {
  EXPECT_EQ(OnlyFault("{\n\"a\": \"\xFF\"}"), "2:7 : this byte is not UTF-8");
}

TEST(FirstInvalidUtf8, KnowsOverlongFormsSurrogatesAndTheLastCodePoint) {
  EXPECT_EQ(FirstInvalidUtf8("a\xC3\xA9\xE2\x82\xAC\xF4\x8F\xBF\xBF"), 10U);
  EXPECT_EQ(FirstInvalidUtf8("a\xC0\x80"), 1U);
  EXPECT_EQ(FirstInvalidUtf8("\xE0\x80\x80"), 0U);
  EXPECT_EQ(FirstInvalidUtf8("\xED\xA0\x80"), 0U);
  EXPECT_EQ(FirstInvalidUtf8("\xF4\x90\x80\x80"), 0U);
  EXPECT_EQ(FirstInvalidUtf8("\xE2\x82"), 0U);
}

TEST(SameValue, ComparesNumbersByNumberAndObjectsWithoutOrder) {
  const auto root = [](std::string_view text) { return ReadJson(text).root; };
  EXPECT_TRUE(
      SameValue(root("{\"a\": 5e8, \"b\": [1]}"), root("{\"b\": [1.0], \"a\": 500000000}")));
  EXPECT_FALSE(SameValue(root("{\"a\": 1}"), root("{\"a\": true}")));
  EXPECT_FALSE(SameValue(root("{\"a\": 1}"), root("{\"a\": 1, \"b\": 2}")));
  EXPECT_FALSE(SameValue(root("{\"a\": [1, 2]}"), root("{\"a\": [2, 1]}")));
}

TEST(Printable, EscapesControlsAndCutsAtCharacters) {
  EXPECT_EQ(Printable("a\nb"), "a\\x0ab");
  std::string text(59, 'x');
  text += "\xC3\xA9tail";
  EXPECT_EQ(Printable(text), std::string(59, 'x') + "...");
}

TEST(ToJson, QuotesTexts) {
  EXPECT_EQ(ToJson(ReadJson(R"({"a\"": "b\\\u0001", "n": null, "t": true})").root),
            R"({"a\"": "b\\\u0001", "n": null, "t": true})");
}

}  // namespace
}  // namespace shoal::config
