#include "plugins/pjrt_cpu/programs/compile_options.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "xla/debug_options_flags.h"
#include "xla/pjrt/proto/compile_options.pb.h"

namespace pw::pjrt_cpu {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Returns an option with a default of true in every XLA, so that "absent" and "off" differ.
bool Threads(const xla::DebugOptions& options) { return options.xla_cpu_multi_thread_eigen(); }

// Returns the options as text, with the entries of maps in order.
std::string Text(const xla::DebugOptions& options) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(options, &text);
  return text;
}

absl::StatusOr<xla::CompileOptions> Read(const xla::CompileOptionsProto& proto) {
  const std::string bytes = proto.SerializeAsString();
  return ReadCompileOptions(bytes.data(), bytes.size());
}

TEST(CompileOptions, AnAbsentOptionHasTheDefaultOfThisXla) {
  ASSERT_TRUE(Threads(xla::GetDebugOptionsFromFlags()));
  xla::DebugOptions sent;
  sent.set_xla_cpu_enable_fast_math(true);
  EXPECT_TRUE(Threads(DebugOptionsFor(sent)));
  EXPECT_TRUE(DebugOptionsFor(sent).xla_cpu_enable_fast_math());
}

TEST(CompileOptions, AnOptionThatWasSentIsTakenAlsoWhenItIsOff) {
  xla::DebugOptions sent;
  sent.set_xla_cpu_multi_thread_eigen(false);
  EXPECT_FALSE(Threads(DebugOptionsFor(sent)));
}

TEST(CompileOptions, AllOptionsOfThisXlaStayAsTheyAre) {
  xla::DebugOptions sent = xla::GetDebugOptionsFromFlags();
  sent.add_xla_disable_hlo_passes("this-one");
  EXPECT_EQ(Text(DebugOptionsFor(sent)), Text(sent));
}

TEST(CompileOptions, ListsAreAsTheyWereSent) {
  xla::DebugOptions sent;
  EXPECT_THAT(DebugOptionsFor(sent).xla_gpu_enable_command_buffer(), IsEmpty());
  sent.add_xla_disable_hlo_passes("this-one");
  EXPECT_THAT(DebugOptionsFor(sent).xla_disable_hlo_passes(), ElementsAre("this-one"));
}

// Otherwise a default of true would replace a false that was sent.
TEST(CompileOptions, AFieldThatCannotBeAbsentIsAsItWasSent) {
  const google::protobuf::Descriptor& fields = *xla::DebugOptions::descriptor();
  const xla::DebugOptions taken = DebugOptionsFor(xla::DebugOptions());
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = fields.field(i);
    if (field->is_repeated() || field->has_presence()) continue;
    std::vector<const google::protobuf::FieldDescriptor*> set;
    taken.GetReflection()->ListFields(taken, &set);
    EXPECT_THAT(set, Not(Contains(field))) << field->name();
  }
}

TEST(CompileOptions, OptionsWithoutAnyForTheCompilerHaveThoseOfThisXla) {
  absl::StatusOr<xla::CompileOptions> options = Read(xla::CompileOptionsProto());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(Threads(options->executable_build_options.debug_options()));
}

TEST(CompileOptions, AnOptionThatAUserNamesForAProgramWins) {
  xla::CompileOptionsProto proto;
  (*proto.mutable_env_option_overrides())["xla_cpu_multi_thread_eigen"].set_bool_field(false);
  absl::StatusOr<xla::CompileOptions> options = Read(proto);
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_TRUE(options->ApplyAllOptionOverrides().ok());
  EXPECT_FALSE(Threads(options->executable_build_options.debug_options()));
}

TEST(CompileOptions, OtherBytesAreRefused) {
  EXPECT_EQ(ReadCompileOptions("\xff\xff", 2).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pw::pjrt_cpu
