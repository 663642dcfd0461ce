// Small results that are read after every call come with the call (fetches_ahead.h), through the requests of a client.
#include "pathways/frontend/fetches_ahead.h"

#include "pathways/frontend/testing/session_fixture.h"

namespace pw::frontend::testing {
namespace {

constexpr uint64_t kArgument = 1;

class FetchesAheadTest : public ClientSessionTest {
 protected:
  void SetUp() override {
    Init();
    MakeFilledArray(kArgument);
    executable_ = CompileJit();
  }

  // Calls the executable; returns its result.
  uint64_t Run(uint64_t argument = kArgument) {
    const uint64_t result = ++handle_;
    EXPECT_EQ(CodeOf(Execute(executable_, {argument}, {result})), 0);
    return result;
  }
  IfrtResponse Read(uint64_t array, uint64_t buffer, std::vector<int64_t> strides = {4}) {
    IfrtRequest request;
    auto& copy = *request.mutable_copy_to_host_buffer_request();
    copy.set_array_handle(array);
    copy.set_host_buffer_handle(buffer);
    copy.mutable_byte_strides()->mutable_strides()->Assign(strides.begin(), strides.end());
    return Call(std::move(request));
  }
  absl::StatusOr<std::string> Lookup(uint64_t buffer) {
    absl::StatusOr<std::string> found = absl::UnavailableError("no answer");
    session_->LookupHostBuffer(buffer, [&](absl::StatusOr<Bytes> data) {
      found = data.ok() ? absl::StatusOr<std::string>(std::string(data->view())) : data.status();
    });
    cluster_.RunAll();
    return found;
  }
  // Reads the array as jax does; returns its bytes.
  std::string Value(uint64_t array) {
    const uint64_t buffer = ++handle_;
    EXPECT_EQ(CodeOf(Read(array, buffer)), 0);
    const absl::StatusOr<std::string> value = Lookup(buffer);
    EXPECT_TRUE(session_->DeleteHostBuffer(buffer).ok());
    EXPECT_EQ(Lookup(buffer).status().code(), absl::StatusCode::kNotFound);
    return value.value_or(value.status().ToString());
  }
  void Destruct(uint64_t array) {
    IfrtRequest request;
    request.mutable_destruct_array_request()->add_array_handle(array);
    EXPECT_EQ(CodeOf(Call(std::move(request))), 0);
  }
  uint64_t Replicated(uint64_t array) {
    IfrtRequest request;
    request.mutable_fully_replicated_shard_request()->set_array_handle(array);
    request.mutable_fully_replicated_shard_request()->set_result_handle(++handle_);
    EXPECT_EQ(CodeOf(Call(std::move(request))), 0);
    return handle_;
  }
  // Calls the executable `calls` times, and reads each result.
  void Loop(int calls) {
    for (int i = 0; i < calls; ++i) {
      const uint64_t result = Run();
      EXPECT_EQ(Value(result), "0123456789abcdef");
      Destruct(result);
    }
  }
  int copies() { return fake().copies_to_host; }

  uint64_t executable_ = 0;
  uint64_t handle_ = 1000;
};

INSTANTIATE_TEST_SUITE_P(Versions, FetchesAheadTest, ::testing::Values(protocol::kOldest, protocol::kNewest));

TEST_P(FetchesAheadTest, AResultThatIsAlwaysReadIsFetchedWithItsCall) {
  Loop(2);
  EXPECT_EQ(copies(), 2) << "each when it was read";
  const uint64_t result = Run();
  EXPECT_EQ(copies(), 3) << "before it is read";
  EXPECT_EQ(Value(result), "0123456789abcdef");
  Loop(5);
  EXPECT_EQ(copies(), 8) << "each once";
}

TEST_P(FetchesAheadTest, AlsoWhenTheClientReadsAReplicatedShard) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Value(Replicated(Run())), "0123456789abcdef");
  EXPECT_EQ(copies(), 4);
  const uint64_t shard = Replicated(Run());
  EXPECT_EQ(copies(), 5);
  EXPECT_EQ(Value(shard), "0123456789abcdef");
  EXPECT_EQ(copies(), 5);
}

TEST_P(FetchesAheadTest, NotWhenItIsNoLongerRead) {
  Loop(3);
  const int before = copies();
  for (int i = 0; i < 10; ++i) Destruct(Run());
  EXPECT_EQ(copies(), before + 1) << "the first that is dropped unread ends it";
  Loop(3);
  EXPECT_EQ(copies(), before + 4);
}

TEST_P(FetchesAheadTest, NotMoreThanSomeThatAreKeptUnread) {
  Loop(3);
  const int before = copies();
  std::vector<uint64_t> kept;
  for (int i = 0; i < 3 * FetchesAhead::kMostUnread; ++i) kept.push_back(Run());
  EXPECT_EQ(copies(), before + FetchesAhead::kMostUnread);
  for (uint64_t result : kept) EXPECT_EQ(Value(result), "0123456789abcdef");
  EXPECT_EQ(copies(), before + 3 * FetchesAhead::kMostUnread) << "each once";
}

TEST_P(FetchesAheadTest, NotWhenItIsLarge) {
  for (int i = 0; i < 5; ++i) {
    const uint64_t result = Run();
    fake().arrays[result].spec.dims = {FetchesAhead::kMostBytes / 4 + 1};
    EXPECT_EQ(copies(), i);
    Value(result);
  }
}

TEST_P(FetchesAheadTest, OtherStridesAreFetchedAnew) {
  Loop(3);
  const int before = copies();
  const uint64_t result = Run();
  EXPECT_EQ(CodeOf(Read(result, 50, {-4})), 0);
  EXPECT_EQ(copies(), before + 2);
  EXPECT_EQ(*Lookup(50), "0123456789abcdef");
}

TEST_P(FetchesAheadTest, AReadWaitsForTheBytes) {
  Loop(3);
  auto& data = *fake().arrays[kArgument].data;  // results share it
  data.there = false;
  const uint64_t result = Run();
  EXPECT_EQ(Read(result, 50).response_metadata().op_id(), 0) << "no answer yet";
  const uint64_t read = op_id_;
  absl::StatusOr<Bytes> found = absl::UnavailableError("no answer");
  session_->LookupHostBuffer(50, [&](absl::StatusOr<Bytes> bytes) { found = std::move(bytes); });
  Destruct(result);
  data.there = true;
  for (auto& waiter : std::exchange(data.waiters, {})) std::move(waiter)();
  cluster_.RunAll();
  EXPECT_EQ(sink_.responses.back().response_metadata().op_id(), read);
  EXPECT_EQ(CodeOf(sink_.responses.back()), 0);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->view(), "0123456789abcdef");
}

TEST_P(FetchesAheadTest, ErrorsAreTheSame) {
  Loop(3);
  const uint64_t result = Run();
  fake().arrays[result].error = absl::DataLossError("the host is gone");  // after its fetch has begun
  EXPECT_EQ(Value(result), "0123456789abcdef");
  fake().arrays[kArgument].error = absl::DataLossError("the host is gone");
  const uint64_t failed = ++handle_;
  Execute(executable_, {kArgument}, {failed});
  const IfrtResponse answer = Read(failed, 50);
  EXPECT_EQ(CodeOf(answer), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_EQ(TextOf(answer), "the host is gone");
  EXPECT_EQ(Lookup(50).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(FetchesAheadTest, ADeletedArrayIsNotRead) {
  Loop(3);
  const uint64_t result = Run();
  IfrtRequest remove;
  remove.mutable_delete_array_request()->add_array_handle(result);
  Call(std::move(remove));
  fake().arrays.erase(result);
  EXPECT_EQ(CodeOf(Read(result, 50)), static_cast<int>(absl::StatusCode::kNotFound));
}

TEST_P(FetchesAheadTest, TheSessionMayEndMeanwhile) {
  Loop(3);
  fake().arrays[kArgument].data->there = false;
  const uint64_t result = Run();
  Read(result, 50);
  const size_t answers = sink_.responses.size();
  session_->End();
  session_ = nullptr;
  cluster_.RunAll();
  EXPECT_EQ(sink_.responses.size(), answers);
}

}  // namespace
}  // namespace pw::frontend::testing
