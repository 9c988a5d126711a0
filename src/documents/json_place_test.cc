#include "documents/json_place.hpp"

#include <gtest/gtest.h>

#include "documents/json_value.hpp"

namespace tutti {
namespace {

constexpr std::string_view kText = R"({
  "name": "a \"quoted\" {name}, [0]",
  "links": [
    {"from": "a", "to": "b"},
    {
      "from": "b",
      "to.port": [1,
                  2], "empty": {}, "none": []
    }
  ],
  "last": true
}
)";

TEST(JsonPlace, IsTheLineOfTheValue) {
  EXPECT_EQ(line_of(kText, ""), 1);
  EXPECT_EQ(line_of(kText, "name"), 2);
  EXPECT_EQ(line_of(kText, "links"), 3);
  EXPECT_EQ(line_of(kText, "links[0].to"), 4);
  EXPECT_EQ(line_of(kText, "links[1]"), 5);
  EXPECT_EQ(line_of(kText, "links[1].from"), 6);
  EXPECT_EQ(line_of(kText, "links[1].to.port[1]"), 8);
  EXPECT_EQ(line_of(kText, "links[1].none"), 8);
  EXPECT_EQ(line_of(kText, "last"), 11);
}

TEST(JsonPlace, IsNoneForWhatIsNotThere) {
  for (const char* path :
       {"nam", "name.x", "names", "links[2]", "links[1].empty.x", "links[1].none[0]", "links[", "[0]"})
    EXPECT_EQ(line_of(kText, path), 0) << path;
  EXPECT_EQ(line_of("", "name"), 0);
  EXPECT_EQ(line_of("", ""), 0);
  EXPECT_EQ(place_in(kText, "links[1].from"), "line 6: links[1].from");
  EXPECT_EQ(place_in(kText, "nowhere"), "nowhere");
}

TEST(JsonPlace, CountsKeys) {
  EXPECT_EQ(line_of_key(kText, 0), 2);
  EXPECT_EQ(line_of_key(kText, 2), 4);
  EXPECT_EQ(line_of_key(kText, 5), 7);
  EXPECT_EQ(line_of_key(kText, 8), 11);
  EXPECT_EQ(line_of_key(kText, 9), 0);
}

std::string why_not(std::string_view text) {
  try {
    const JsonDocument document(text, 3);
    JsonValue(document).at("a").elements().at(1).integer(0, 9);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(JsonValue, ErrorsNameTheLine) {
  EXPECT_EQ(why_not("{\"a\": [1, 2]}"), "");
  EXPECT_EQ(why_not("{\"a\": [1,\n12]}"), "line 2: a[1]: 12 is out of range; expected 0 to 9");
  EXPECT_EQ(why_not("\n{\"b\": 1}"), "line 2: 'a' is missing");
  EXPECT_EQ(why_not("{\"a\": 1,\n\"b\": \"a\",\n\"a\": 2}"), "line 3: key 'a' stands twice in one object");
  EXPECT_EQ(why_not("{\"a\":\n[\n[\n[1]]]}"), "line 4: nested deeper than 3 levels");
  EXPECT_EQ(why_not("{\n\"a\": }").rfind("parse error at line 2", 0), 0u);
}

}  // namespace
}  // namespace tutti
