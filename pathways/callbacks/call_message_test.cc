#include "pathways/callbacks/call_message.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::callbacks {
namespace {

TEST(CallMessageTest, ACallNamesItsOperands) {
  session::HostCall call;
  call.callback = 3;
  call.operands = {{buffers::DType::kF32, {2, 1}, std::nullopt}, {buffers::DType::kPred, {}, std::nullopt}};
  call.data = {Bytes::Copy("12345678"), Bytes()};
  const std::string text = EncodeCall(7, call);
  const std::string json =
      R"({"call":7,"callback":3,"operands":[{"dtype":"f32","dims":[2,1],"bytes":8},{"dtype":"pred","dims":[],"bytes":0}]})";
  EXPECT_EQ(text.substr(4), json);
  EXPECT_EQ(static_cast<uint8_t>(text[0]) | static_cast<uint8_t>(text[1]) << 8, static_cast<int>(json.size()));
}

TEST(CallMessageTest, ReadsTokenAnswerAndFailure) {
  EXPECT_EQ(ParseHeader(R"({"companion":"abc"})")->companion, "abc");

  const auto answer = ParseHeader(R"({"call":9,"ok":true,"results":[16,0]})");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->call, 9u);
  EXPECT_THAT(answer->result_bytes, ::testing::ElementsAre(16, 0));
  EXPECT_TRUE(answer->status.ok());

  const auto failure = ParseHeader(R"({"call":9,"ok":false,"code":13,"message":"ValueError: \"no\"\nhere"})");
  ASSERT_TRUE(failure.ok());
  EXPECT_EQ(failure->status, absl::InternalError("ValueError: \"no\"\nhere"));
}

TEST(CallMessageTest, RefusesWhatIsNoHeader) {
  for (const char* text :
       {"", "[]", "{", R"({"ok":true})", R"({"call":-1,"ok":true})", R"({"call":1.5,"ok":true})",
        R"({"call":1,"ok":true,"results":["x"]})", R"({"call":1,"ok":false})", R"({"call":1,"ok":false,"code":0})"}) {
    EXPECT_FALSE(ParseHeader(text).ok()) << text;
  }
}

}  // namespace
}  // namespace pw::callbacks
