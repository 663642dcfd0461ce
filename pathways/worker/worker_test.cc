#include "pathways/worker/worker.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHold[] = "args=1 outputs=1 dims=4 hold=1";

TEST(Worker, PutExecuteFetch) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Put(10, 100, {1, 2, 3, 4});
  w.Settle();
  w.Execute(11, 1, {100}, {101});
  w.Execute(12, 1, {101}, {102});
  EXPECT_THAT(w.Read(102, 0), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(w.Read(102, 1), ElementsAre(3, 4, 5, 6));
  for (uint64_t op : {10, 11, 12}) EXPECT_TRUE(w.connection.done[op].ok());
}

TEST(Worker, ExecuteMayArriveBeforeItsProgramIsCompiled) {
  WorkerHarness w;
  w.Put(10, 100, {1, 2, 3, 4});
  w.Compile(1, kDonate);
  w.Execute(11, 1, {100}, {101});
  EXPECT_EQ(w.connection.done.count(11), 0u);
  EXPECT_THAT(w.Read(101, 0), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(w.worker->arrays(), 1) << "the donated array is gone";
}

// Executions that wait for bytes from outside are granted when the bytes arrive; until then they delay no other command.
TEST(Worker, AParkedCommandDoesNotBlockIndependentLaterOnes) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Settle();
  w.PutLater(10, 100, 4);
  v1::Command waits;
  waits.mutable_execute()->set_op(11);
  waits.mutable_execute()->set_executable(1);
  waits.mutable_execute()->set_session(1);
  waits.mutable_execute()->add_args(100);
  waits.mutable_execute()->add_results(101);
  waits.mutable_execute()->set_grant(5);
  w.Do(waits);
  w.Put(12, 200, {5, 6, 7, 8});
  w.Execute(13, 1, {200}, {201});
  w.Settle();
  EXPECT_EQ(w.connection.done.count(11), 0u);
  EXPECT_TRUE(w.connection.done.at(13).ok());
  w.SendChunks(10, {1, 2, 3, 4});
  v1::Command grant;
  grant.mutable_grant()->add_gangs(5);
  w.Do(grant);
  EXPECT_THAT(w.Read(101, 1), ElementsAre(2, 3, 4, 5));
}

// Reports the turn when the execution is granted, whether or not its inputs exist; also when it ends without a grant.
TEST(Worker, AnExecutionThatIsEnqueuedSaysSoIfAsked) {
  WorkerHarness w;
  const auto execute = [&w](uint64_t op, uint64_t executable, uint64_t arg, uint64_t grant) {
    v1::Command command;
    auto& e = *command.mutable_execute();
    e.set_op(op);
    e.set_executable(executable);
    e.set_session(1);
    e.add_args(arg);
    e.add_results(op + 1000);
    e.set_grant(grant);
    e.set_enqueued(op + 1);
    w.Do(command);
  };
  const auto told = [&w](uint64_t op) { return w.connection.done.contains(op); };
  w.PutLater(2, 100, 4);
  w.Compile(1, kAdd);
  execute(20, 1, 100, 0);
  EXPECT_FALSE(told(21)) << "its program is being compiled";
  w.Settle();
  EXPECT_TRUE(told(21));
  EXPECT_FALSE(told(20)) << "its input is on its way";
  execute(30, 1, 1020, 5);
  execute(40, 1, 1020, 6);
  execute(50, 77, 1020, 0);
  EXPECT_FALSE(told(31) || told(41)) << "neither is granted";
  EXPECT_TRUE(told(51) && told(50)) << "there is no such program";
  v1::Command grant;
  grant.mutable_grant()->add_gangs(5);
  auto& refused = *grant.mutable_grant()->add_refused();
  refused.set_gang(6);
  *refused.mutable_status() = ToProto(absl::UnavailableError("a device has gone"));
  w.Do(grant);
  EXPECT_TRUE(told(31));
  EXPECT_FALSE(told(30));
  w.SendChunks(2, {1, 2, 3, 4});
  w.Settle();
  EXPECT_TRUE(told(41));
  EXPECT_TRUE(told(20) && told(30));
  EXPECT_FALSE(w.connection.done.at(40).ok());
}

TEST(Worker, ReleaseAndDonationWaitForEarlierReaders) {
  WorkerHarness w;
  w.Compile(1, "args=2 outputs=1 dims=4");
  w.Compile(2, kDonate);
  w.Put(10, 100, {1, 1, 1, 1});
  w.Settle();
  w.PutLater(11, 200, 4);
  w.Execute(12, 1, {100, 200}, {300});  // waits for 200, will read 100
  w.Execute(13, 2, {100}, {400});       // takes 100 over: must wait
  w.Settle();
  EXPECT_EQ(w.connection.done.count(13), 0u);
  w.Release(200);  // the name is released, the bytes are still needed
  w.SendChunks(11, {2, 2, 2, 2});
  EXPECT_THAT(w.Read(300, 0), ElementsAre(6, 6, 6, 6));
  EXPECT_THAT(w.Read(400, 0), ElementsAre(2, 2, 2, 2));
}

TEST(Worker, AnAliasedArrayIsNotTakenOver) {
  WorkerHarness w;
  w.Compile(1, kDonate);
  w.Put(10, 100, {1, 2, 3, 4});
  w.Settle();
  w.Alias(11, 150, 0, 100, 1);
  w.Execute(12, 1, {100}, {101});
  EXPECT_THAT(w.Read(101, 0), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(w.Read(150, 0), ElementsAre(1, 2, 3, 4));
}

TEST(Worker, ErrorsAreValues) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Compile(2, "args=1 outputs=1 dims=4 fail=the_chip_is_hot");
  w.Put(10, 100, {1, 2, 3, 4});
  w.Settle();
  w.Execute(11, 2, {100}, {101});
  w.Execute(12, 1, {101}, {102});  // enqueued before the failure is known
  w.Settle();
  w.Execute(13, 1, {102}, {103});  // after it is known
  w.Execute(14, 1, {100}, {104});  // not affected
  w.Fetch(20, 103, 1);
  w.Settle();
  for (uint64_t op : {11, 12, 13}) EXPECT_EQ(w.connection.done.at(op), absl::InternalError("the chip is hot"));
  EXPECT_TRUE(w.connection.done.at(14).ok());
  EXPECT_EQ(FromProto(w.connection.fetched.at(20).status()), absl::InternalError("the chip is hot"));
  w.Release(103);
  EXPECT_THAT(w.Read(104, 0), ElementsAre(2, 3, 4, 5));
}

TEST(Worker, UnknownNamesAreErrorsOfTheCommand) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Settle();
  w.Execute(11, 1, {555}, {101});
  w.Execute(12, 99, {100}, {102});
  w.Execute(13, 1, {102}, {103});
  w.Release(777);
  w.Fetch(20, 555, 0);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(11).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(w.connection.done.at(11).message()), HasSubstr("array 555"));
  EXPECT_EQ(w.connection.done.at(12).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(w.connection.done.at(13), w.connection.done.at(12));
  EXPECT_EQ(FromProto(w.connection.fetched.at(20).status()).code(), absl::StatusCode::kNotFound);
}

TEST(Worker, PoisonBindsAnErrorToArrays) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Settle();
  v1::Command command;
  command.mutable_poison()->add_arrays(100);
  command.mutable_poison()->mutable_error()->set_code(8);
  command.mutable_poison()->mutable_error()->set_message("no room");
  w.Do(command);
  w.Execute(11, 1, {100}, {101});
  w.Settle();
  EXPECT_EQ(w.connection.done.at(11), absl::ResourceExhaustedError("no room"));
}

TEST(Worker, ChunksMayOvertakeTheirPut) {
  WorkerHarness w;
  w.SendChunks(10, {1, 2, 3, 4, 5}, 12);
  w.PutLater(10, 100, 5);
  EXPECT_THAT(w.Read(100, 0), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(w.Read(100, 1), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Worker, ABrokenTransferFailsItsPutOnly) {
  WorkerHarness w;
  w.PutLater(10, 100, 4);
  w.SendChunks(10, {1, 2, 3}, 4);  // announces 12 bytes instead of 16
  w.PutLater(11, 101, 4);
  v1::Command abort;
  abort.mutable_abort_transfer()->set_transfer(11 + 1000000);
  abort.mutable_abort_transfer()->mutable_status()->set_code(1);
  abort.mutable_abort_transfer()->mutable_status()->set_message("the client hung up");
  w.Do(abort);
  w.SendChunks(11, {1, 2, 3, 4});  // late
  w.Put(12, 102, {7});
  w.Settle();
  EXPECT_EQ(w.connection.done.at(10).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(w.connection.done.at(11), absl::CancelledError("the client hung up"));
  EXPECT_THAT(w.Read(102, 0), ElementsAre(7));
}

TEST(Worker, PutsWithStridesAndWithoutElements) {
  WorkerHarness w;
  v1::Command command = w.PutCommand(10, 100, 0, {0});
  auto* put = command.mutable_put();
  put->clear_dims();
  put->add_dims(2);
  put->add_dims(3);
  put->set_has_byte_strides(true);
  put->add_byte_strides(-4);  // columns stored together, rows backwards
  put->add_byte_strides(8);
  put->set_total_bytes(24);
  put->set_payload_bytes(24);
  w.Do(command, FloatBytes({1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(w.Read(100, 0), ElementsAre(2, 4, 6, 1, 3, 5));
  w.Put(11, 101, {});
  EXPECT_THAT(w.Read(101, 1), ElementsAre());
  EXPECT_TRUE(w.connection.done.at(11).ok());

  v1::Command fetch;
  fetch.mutable_fetch()->set_fetch(20);
  fetch.mutable_fetch()->set_array(100);
  fetch.mutable_fetch()->set_has_byte_strides(true);
  fetch.mutable_fetch()->add_byte_strides(4);
  fetch.mutable_fetch()->add_byte_strides(8);
  w.Do(fetch);
  w.Settle();
  EXPECT_THAT(Floats(w.connection.fetched_bytes[20]), ElementsAre(2, 1, 4, 3, 6, 5));
}

// With a stride of 0, a few bytes make an array of any size.
TEST(Worker, APutThatNoMachineHasMemoryForIsAnErrorAndNothingElse) {
  for (int64_t limit : {int64_t{0}, int64_t{1} << 30}) {
    WorkerHarness::Setup setup;
    setup.limits.device_memory_bytes = limit;
    WorkerHarness worker(setup);
    v1::Command command = worker.PutCommand(10, 100, int64_t{1} << 60, {0});
    command.mutable_put()->set_has_byte_strides(true);
    command.mutable_put()->add_byte_strides(0);
    command.mutable_put()->set_total_bytes(4);
    command.mutable_put()->set_payload_bytes(4);
    worker.Do(command, FloatBytes({1}));
    worker.Settle();
    EXPECT_EQ(worker.connection.done.at(10).code(), absl::StatusCode::kResourceExhausted) << limit;
    worker.Put(11, 101, {2});
    worker.Settle();
    EXPECT_THAT(worker.Read(101, 0), ElementsAre(2));
  }
}

TEST(Worker, LargeFetchesGoInChunksAndHeedBackPressure) {
  WorkerHarness w;
  std::vector<float> values(1 << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  w.Put(10, 100, values);
  w.connection.bulk_open = false;
  w.Fetch(20, 100, 0);
  w.Settle();
  EXPECT_EQ(w.connection.chunks, 0);
  EXPECT_EQ(w.connection.fetched.at(20).total_bytes(), values.size() * 4);
  w.connection.bulk_open = true;
  w.strand.Post([&] { w.worker->BulkWritable(); });
  w.Settle();
  EXPECT_EQ(w.connection.chunks, 4);
  EXPECT_EQ(Floats(w.connection.fetched_bytes[20]), values);
}

std::vector<float> Many() {
  std::vector<float> values(1 << 19);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

void TakeShared(WorkerHarness& w, uint64_t fetch) {
  v1::Command command;
  command.mutable_shared_taken()->add_transfers(fetch);
  w.Do(command);
}

TEST(Worker, AFetchNamesSharedMemoryWhereTheControllerCanOpenIt) {
  WorkerHarness w({.limits = {.fetch_bytes = 3 << 20}, .takes_shared = true});
  w.Put(10, 100, Many());
  w.Settle();
  w.Fetch(20, 100, 0);
  w.Fetch(21, 100, 1);
  w.Settle();
  EXPECT_EQ(w.connection.chunks, 0);
  EXPECT_EQ(w.connection.fetched.at(20).payload_bytes(), 0u);
  EXPECT_EQ(Floats(w.connection.fetched_bytes[20]), Many());
  EXPECT_EQ(w.connection.fetched.count(21), 0u) << "there is room when the first has been taken";
  TakeShared(w, 20);
  w.Settle();
  EXPECT_EQ(Floats(w.connection.fetched_bytes[21]), Many());
  TakeShared(w, 21);
  w.Put(11, 101, {1, 2});
  EXPECT_THAT(w.Read(101, 0), ElementsAre(1, 2));
}

TEST(Worker, ADonationWaitsForACopyOfTheArrayThatIsBeingMade) {
  WorkerHarness w({.takes_shared = true});
  w.Compile(1, kDonate);
  w.Put(10, 100, Many());
  w.Settle();
  w.hold_copies = true;
  w.Fetch(20, 100, 0);
  w.Settle();
  EXPECT_EQ(w.copy_executor.size(), 1u);
  w.Execute(11, 1, {100}, {101});
  w.Settle();
  EXPECT_EQ(w.connection.done.count(11), 0u);
  w.hold_copies = false;
  w.Settle();
  EXPECT_TRUE(w.connection.done.at(11).ok());
  EXPECT_EQ(Floats(w.connection.fetched_bytes[20]), Many());
}

TEST(Worker, ASessionOrAWorkerMayEndWhileACopyIsBeingMade) {
  for (bool whole_worker : {false, true}) {
    WorkerHarness w({.takes_shared = true});
    w.Put(10, 100, Many());
    w.Settle();
    w.hold_copies = true;
    w.Fetch(20, 100, 0);
    w.Settle();
    w.ReleaseOwner(1);
    w.strand.Post([&] {
      if (whole_worker) w.worker = nullptr;
    });
    w.hold_copies = false;
    w.Settle();
    EXPECT_EQ(w.connection.fetched.count(20), 0u);
    if (!whole_worker) {
      EXPECT_EQ(w.Memory().devices(0).used_bytes(), 0);
    }
  }
}

TEST(Worker, APutTakesTheSharedMemoryThatAChunkNames) {
  WorkerHarness w({.takes_shared = true});
  net::SharedMemoryFactory factory;
  net::SharedMemory memory = *factory.Create(4 * sizeof(float));
  const std::string values = FloatBytes({1, 2, 3, 4});
  std::memcpy(memory.data(), values.data(), values.size());
  Bytes bytes = std::move(memory).Freeze();
  for (uint64_t op : {10, 11}) {
    w.PutLater(op, op + 90, 4);
    v1::Command command;
    auto* chunk = command.mutable_chunk();
    chunk->set_transfer(op + 1000000);
    chunk->set_total_bytes(values.size());
    chunk->set_session(1);
    net::WriteName(*net::NameOf(bytes), chunk->mutable_shared());
    if (op == 11) chunk->mutable_shared()->set_inode(1);
    w.Do(command);
  }
  w.Settle();
  bytes = Bytes();
  EXPECT_THAT(w.connection.taken, ElementsAre(1000010, 1000011));
  EXPECT_THAT(w.Read(100, 1), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(w.connection.done.at(11).code(), absl::StatusCode::kUnavailable);
}

TEST(Worker, ReleaseOwnerFreesEverythingAlsoWhatIsOnItsWay) {
  WorkerHarness w;
  w.Compile(1, kAdd, {0, 1}, 1);
  w.Compile(2, kAdd, {0, 1}, 2);
  w.Put(10, 100, {1, 2, 3, 4}, {0, 1}, 1);
  w.Put(11, 200, {1, 2, 3, 4}, {0, 1}, 2);
  w.Settle();
  w.PutLater(12, 101, 4, {0, 1}, 1);
  w.Execute(13, 1, {101}, {102}, 1);
  w.Settle();
  w.ReleaseOwner(1);
  w.SendChunks(12, {1, 2, 3, 4}, 8, 1);  // late
  w.Settle();
  const v1::MemoryReport report = w.Memory();
  EXPECT_EQ(report.arrays(), 1);
  EXPECT_EQ(report.devices(0).used_bytes(), 16);
  EXPECT_EQ(report.devices(0).used_by_session().at(2), 16);
  EXPECT_EQ(w.connection.done.at(13).code(), absl::StatusCode::kCancelled);
  w.Execute(14, 2, {200}, {201}, 2);
  EXPECT_THAT(w.Read(201, 0), ElementsAre(2, 3, 4, 5));
}

TEST(Worker, MemoryIsAccountedPerSessionAndGivenBack) {
  WorkerHarness w;
  w.Compile(1, kDonate);
  w.Put(10, 100, {1, 2, 3, 4}, {0, 1}, 3);
  w.Settle();
  w.Execute(11, 1, {100}, {101}, 3);
  w.Settle();
  EXPECT_EQ(w.Memory().devices(1).used_bytes(), 16) << "a donation needs no more memory";
  w.Release(101);
  EXPECT_EQ(w.Memory().devices(1).used_bytes(), 0);
  EXPECT_EQ(w.Memory().devices(1).peak_bytes(), 16);
  EXPECT_TRUE(w.Memory().devices(1).used_by_session().empty());
}

// On each device there is room for two arrays of 16 bytes, and a running computation's argument and result take it.
struct ShortOfMemory : WorkerHarness {
  static Setup Limited() {
    Setup setup;
    setup.limits.device_memory_bytes = 40;
    return setup;
  }
  ShortOfMemory() : WorkerHarness(Limited()) {
    Compile(1, kHold);
    Compile(2, kAdd);
    Put(10, 100, {1, 2, 3, 4});
    Settle();
    Execute(11, 1, {100}, {101});
  }
};

TEST(Worker, ShortMemoryMakesCommandsWaitAndThenNamesTheHolders) {
  ShortOfMemory w;
  w.Release(100);
  w.Execute(12, 2, {101}, {102});  // fits only after the first has ended with its input
  w.Settle();
  EXPECT_EQ(w.connection.done.count(12), 0u);
  w.runtime.ReleaseHeld();
  w.Settle();
  EXPECT_TRUE(w.connection.done.at(12).ok());
  w.Execute(13, 2, {102}, {103});  // 101 and 102 are held, and will not be freed
  w.Settle();
  EXPECT_EQ(w.connection.done.at(13).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(w.connection.done.at(13).message()), HasSubstr("session 1 holds 32 B"));
  w.Release(101);
  w.Execute(14, 2, {102}, {104});
  EXPECT_THAT(w.Read(104, 0), ElementsAre(4, 5, 6, 7));
}

TEST(Worker, AReadOfWhatACommandWillMakeDoesNotKeepItWaitingForMemory) {
  ShortOfMemory w;
  w.Execute(12, 2, {100}, {102});  // may fit once the first has ended: it does not
  w.Fetch(20, 102, 0);
  w.Settle();
  EXPECT_EQ(w.connection.done.count(12), 0u);
  w.runtime.ReleaseHeld();
  w.Settle();
  ASSERT_EQ(w.connection.done.count(12), 1u);
  EXPECT_EQ(w.connection.done.at(12).code(), absl::StatusCode::kResourceExhausted);
}

TEST(Worker, HostCallsGoToTheClientAndBack) {
  WorkerHarness w;
  w.Compile(1, "args=1 outputs=1 dims=4 pathways_host_callback=77");
  w.Put(10, 100, {1, 2, 3, 4});
  w.Settle();
  w.Execute(11, 1, {100}, {101}, 5);
  w.Settle();
  ASSERT_EQ(w.connection.host_calls.size(), 2u);
  EXPECT_EQ(w.connection.host_calls[0].session(), 5u);
  EXPECT_EQ(w.connection.host_calls[0].callback(), 77u);
  EXPECT_EQ(Floats(w.connection.host_call_bytes[0]), (std::vector<float>{1, 2, 3, 4}));
  for (int i = 0; i < 2; ++i) {
    v1::Command reply;
    reply.mutable_host_reply()->set_call(w.connection.host_calls[i].call());
    reply.mutable_host_reply()->add_result_bytes(16);
    w.Do(reply, FloatBytes({9, 9, 9, static_cast<float>(w.connection.host_calls[i].local_device())}));
  }
  EXPECT_THAT(w.Read(101, 1), ElementsAre(9, 9, 9, 1));

  w.Execute(12, 1, {100}, {102}, 5);
  w.Settle();
  v1::Command reply;
  reply.mutable_host_reply()->set_call(w.connection.host_calls[2].call());
  reply.mutable_host_reply()->mutable_status()->set_code(13);
  reply.mutable_host_reply()->mutable_status()->set_message("ValueError: no");
  w.Do(reply);
  w.ReleaseOwner(5);  // the other call's session
  w.Settle();
  EXPECT_EQ(w.connection.done.at(12), absl::InternalError("ValueError: no"));
}

TEST(Worker, BitcastKeepsTheBytes) {
  WorkerHarness w;
  w.Put(10, 100, {1, 2, 3, 4});
  v1::Command command;
  auto* b = command.mutable_bitcast();
  b->set_op(11);
  b->set_session(1);
  b->set_source(100);
  b->set_result(101);
  b->set_dtype(6);
  b->add_dims(4);
  b->add_dims(4);
  w.Do(command);
  EXPECT_EQ(w.Read(101, 1), (std::vector<float>{1, 2, 3, 4}));
  b->set_op(12);
  b->set_result(102);
  b->add_dims(2);
  w.Do(command);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(12).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Worker, SaysWhenAProgramIsNewerThanItsRuntime) {
  WorkerHarness w;
  w.Compile(1, absl::StrCat("StableHLO_v1.13.0 ", kAdd));
  w.Compile(2, absl::StrCat("StableHLO_v1.16.3 ", kAdd));
  w.Compile(3, "StableHLO_v1.13.0 invalid=no_such_op");
  w.Settle();
  EXPECT_EQ(w.connection.compiled[1].status().code(), 0);
  EXPECT_TRUE(w.connection.compiled[2].newer_than_runtime());
  EXPECT_NE(w.connection.compiled[2].status().message().find("1.16.3"), std::string::npos);
  EXPECT_NE(w.connection.compiled[3].status().code(), 0);
  EXPECT_FALSE(w.connection.compiled[3].newer_than_runtime());
}

TEST(Worker, DescribesProgramsAndRefusesBadOnes) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Compile(2, "invalid=no_such_op");
  w.Compile(3, "xla_ffi_python_cpu_callback");
  w.Compile(4, kAdd, {0, 9});
  v1::Command text;
  text.mutable_describe()->set_query(1);
  text.mutable_describe()->set_executable(1);
  text.mutable_describe()->set_what(v1::Describe::PROGRAM_TEXT);
  w.Settle();
  w.Do(text);
  text.mutable_describe()->set_query(2);
  text.mutable_describe()->set_what(v1::Describe::COST_ANALYSIS);
  w.Do(text);
  text.mutable_describe()->set_query(3);
  text.mutable_describe()->set_executable(99);
  w.Do(text);
  w.Settle();
  EXPECT_EQ(w.connection.described[1].text(), kAdd);
  EXPECT_EQ(w.connection.described[2].numbers().at("flops"), 4);
  EXPECT_EQ(w.connection.described[3].status().code(), 5);
  EXPECT_EQ(w.connection.compiled[1].outputs_size(), 1);
  EXPECT_EQ(w.connection.compiled[2].status().message(), "no such op");
  EXPECT_EQ(w.connection.compiled[3].status().code(), 12);
  EXPECT_THAT(w.connection.compiled[3].status().message(), HasSubstr("xla_ffi_python_cpu_callback"));
  EXPECT_EQ(w.connection.compiled[4].status().code(), 3);
}

TEST(Worker, AMalformedBatchIsRefusedBeforeAnyOfItTakesEffect) {
  WorkerHarness w;
  v1::ToWorker batch;
  *batch.add_commands() = w.PutCommand(10, 100, 1, {0});
  batch.mutable_commands(0)->mutable_put()->set_payload_bytes(4);
  *batch.add_commands() = w.PutCommand(11, 101, 1, {0});
  batch.mutable_commands(1)->mutable_put()->set_payload_bytes(UINT64_MAX);
  EXPECT_EQ(w.worker->Handle(batch, Bytes::Copy("1234")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(w.worker->arrays(), 0);
}

TEST(Worker, DroppingAWorkerWithParkedCommandsFreesThem) {
  WorkerHarness w;
  w.Compile(1, "args=1 outputs=1 dims=4 pathways_host_callback=3");
  w.Put(10, 100, {1, 2, 3, 4});
  w.Settle();
  w.Execute(11, 1, {100}, {101});
  w.PutLater(12, 200, 4);
  w.Execute(13, 1, {200}, {201});
  w.Settle();
  EXPECT_EQ(w.connection.done.count(11) + w.connection.done.count(13), 0u) << "one waits for a callback, one for data";
  EXPECT_GT(w.runtime.live_buffers(), 0);
  w.worker = nullptr;
  w.Settle();  // callbacks that arrive now find no worker
  EXPECT_EQ(w.runtime.live_buffers(), 0);
}

TEST(Worker, ALongChainOfParkedCommandsUsesConstantStack) {
  WorkerHarness w;
  w.Compile(1, kDonate);
  w.Settle();
  w.PutLater(1, 1, 4);
  constexpr uint64_t kLength = 20000;
  for (uint64_t i = 1; i <= kLength; ++i) w.Execute(100 + i, 1, {i}, {i + 1});
  w.SendChunks(1, {0, 0, 0, 0});
  EXPECT_THAT(w.Read(kLength + 1, 0), ElementsAre(kLength, kLength, kLength, kLength));
}

}  // namespace
}  // namespace pw::worker
