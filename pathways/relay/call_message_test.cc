#include "pathways/relay/call_message.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::relay {
namespace {

TEST(CallMessageTest, ACallNamesItsOperands) {
  pathways::v1::HostCallRequest call;
  call.set_call(7);
  call.set_callback(3);
  auto* operand = call.add_operands();
  operand->set_dtype(11);
  operand->add_dims(2);
  operand->add_dims(1);
  operand->set_data(std::string(8, 'x'));
  call.add_operands()->set_dtype(1);
  const std::string text = EncodeCall(call);
  const std::string json =
      R"({"call":7,"callback":3,"operands":[{"dtype":"f32","dims":[2,1],"bytes":8},{"dtype":"pred","dims":[],"bytes":0}]})";
  EXPECT_EQ(text.substr(4), json);
  EXPECT_EQ(static_cast<uint8_t>(text[0]) | static_cast<uint8_t>(text[1]) << 8, static_cast<int>(json.size()));
}

TEST(CallMessageTest, ReadsTokenAnswerAndFailure) {
  EXPECT_EQ(ParseHeader(R"({"companion":"abc"})")->companion, "abc");

  const auto answer = ParseHeader(R"({"call":9,"ok":true,"results":[16,0]})");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->answer.call(), 9u);
  EXPECT_EQ(answer->answer.results_size(), 2);
  EXPECT_THAT(answer->result_sizes, ::testing::ElementsAre(16, 0));
  EXPECT_FALSE(answer->answer.has_status());

  const auto failure = ParseHeader(R"({"call":9,"ok":false,"code":13,"message":"ValueError: \"no\"\nhere"})");
  ASSERT_TRUE(failure.ok());
  EXPECT_EQ(failure->answer.status().code(), 13);
  EXPECT_EQ(failure->answer.status().message(), "ValueError: \"no\"\nhere");
}

TEST(CallMessageTest, RefusesWhatIsNoHeader) {
  for (const char* text : {"", "[]", "{", R"({"ok":true})", R"({"call":-1,"ok":true})", R"({"call":1.5,"ok":true})",
                           R"({"call":1,"ok":true,"results":["x"]})", R"({"call":1,"ok":false})"}) {
    EXPECT_FALSE(ParseHeader(text).ok()) << text;
  }
}

}  // namespace
}  // namespace pw::relay
