// Hosts that have outlived a controller: the next one gives them the places that they had, and one that they show to be replaced ends.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/session/restored_slices.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kGrace = absl::Seconds(60);

// A controller of a cluster, and the hosts that join it.
class Controllers : public ::testing::Test {
 protected:
  ClusterOptions Options(uint64_t epoch, int expect_hosts = 1) {
    ClusterOptions options;
    options.expect_hosts = expect_hosts;
    options.epoch = epoch;
    options.controller_grace = kGrace;
    options.host_grace = absl::Seconds(30);
    options.on_replaced = [this](const std::string& why) { replaced_.push_back(why); };
    return options;
  }
  // Returns the host as it comes to the next controller.
  static FakeWorker::Options Returning(const FakeWorker& worker, FakeWorker::Options options) {
    options.former.emplace();
    *options.former->mutable_place() = worker.welcome.place();
    options.former->set_arrays(3);
    options.former->set_programs(2);
    options.epoch = worker.welcome.epoch();
    return options;
  }
  static std::vector<int> DevicesOf(const FakeWorker& worker) {
    return {worker.welcome.device_ids().begin(), worker.welcome.device_ids().end()};
  }

  std::vector<std::string> replaced_;  // the reasons
};

TEST_F(Controllers, HostsGetTheirPlacesInWhateverOrderTheyReturn) {
  const FakeWorker::Options c{"c", "j", 1}, a{"a", "i", 2}, b{"b", "i", 2};
  TestCluster before(0, 0, Options(1));
  const FakeWorker &was_c = before.Add(c), &was_a = before.Add(a), &was_b = before.Add(b);
  EXPECT_EQ(was_c.welcome.epoch(), 1u);
  EXPECT_EQ(was_c.welcome.controller_grace_seconds(), 60);
  EXPECT_THAT(DevicesOf(was_c), ElementsAre(0));
  EXPECT_THAT(DevicesOf(was_b), ElementsAre(3, 4));

  TestCluster after(0, 0, Options(2));
  const FakeWorker &is_b = after.Add(Returning(was_b, b)), &is_c = after.Add(Returning(was_c, c)), &fresh = after.Add({"d", "k", 1}),
                   &is_a = after.Add(Returning(was_a, a));
  for (const auto& [was, is] : {std::pair(&was_a, &is_a), std::pair(&was_b, &is_b), std::pair(&was_c, &is_c)}) {
    EXPECT_EQ(is->welcome.place().SerializeAsString(), was->welcome.place().SerializeAsString());
    EXPECT_EQ(DevicesOf(*is), DevicesOf(*was));
    EXPECT_EQ(is->welcome.island(), was->welcome.island());
    EXPECT_EQ(is->welcome.epoch(), 2u);
  }
  EXPECT_THAT(DevicesOf(fresh), ElementsAre(5));
  after.Open();
  EXPECT_TRUE(after.Put(1, after.Single(4, {2}), "ab").ok());
  EXPECT_EQ(*after.Fetch(1), "ab");
  std::string status;
  after.cluster->GetStatus([&](absl::StatusOr<std::string> json) { status = *json; });
  after.Run();
  EXPECT_THAT(status, HasSubstr("'b' of island 'i': it has outlived its controller, keeps 2 programs, and its parts of 3 arrays"));
}

TEST_F(Controllers, AClusterThatHasFormedBeforeDoesNotWaitForLostHostsForEver) {
  const FakeWorker::Options a{"a", "i", 2}, b{"b", "i", 2}, c{"c", "i", 2};
  TestCluster before(0, 0, Options(1, 3));
  before.Add(a);
  const FakeWorker &was_b = before.Add(b), &was_c = before.Add(c);

  TestCluster after(0, 0, Options(2, 3));
  const FakeWorker &is_c = after.Add(Returning(was_c, c)), &is_b = after.Add(Returning(was_b, b));
  after.timers.Advance(kGrace - absl::Seconds(2));
  EXPECT_FALSE(after.cluster->formed()) << "a may still come";
  after.timers.Advance(absl::Seconds(4));
  EXPECT_TRUE(after.cluster->formed());
  EXPECT_THAT(DevicesOf(is_b), ElementsAre(2, 3));
  EXPECT_THAT(DevicesOf(is_c), ElementsAre(4, 5));
  EXPECT_THAT(DevicesOf(after.Add(a)), ElementsAre(6, 7)) << "it has started anew, and shows no place";
}

TEST_F(Controllers, AClusterThatHasNotFormedBeforeWaitsForAllItsHosts) {
  TestCluster t(0, 0, Options(1, 2));
  t.Add({"a", "i", 1});
  t.timers.Advance(2 * kGrace);
  EXPECT_FALSE(t.cluster->formed());
}

// A host that keeps array `Name(1)` of session 7 for the next controller, and that controller.
class FormerSession : public Controllers {
 protected:
  static constexpr uint64_t kSession = 7;
  static uint64_t Name(uint64_t request, uint64_t session = kSession) {
    return *RequestName{SessionId(session), request, 0, false}.Number();
  }
  FormerSession() {
    ClusterOptions options = Options(2);
    options.restores_sessions = true;
    after_ = std::make_unique<TestCluster>(0, 0, options);
    FakeWorker::Options returning = Returning(before_.Add(kHost), kHost);
    returning.former->add_sessions(kSession);
    host_ = &after_->Add(returning);
  }
  void Report(const std::vector<uint64_t>& arrays, bool cut = false) {
    ::pathways::v1::FromWorker message;
    auto& report = *message.add_events()->mutable_holdings();
    auto& shape = *report.add_shapes();
    shape.set_dtype(static_cast<int>(buffers::DType::kU8));
    shape.add_dims(2);
    for (uint64_t array : arrays) {
      report.add_arrays(array);
      report.add_shape_of_array(0);
    }
    if (cut) report.add_cut_sessions(kSession);
    report.set_last(true);
    host_->Send(message);
    after_->Run();
  }
  std::shared_ptr<Session> Open(uint64_t restored) {
    session::NewSession wanted{"a client"};
    wanted.restored = restored;
    std::shared_ptr<Session> session;
    after_->cluster->OpenSession(std::move(wanted), [&](auto opened) { session = *std::move(opened); });
    after_->Run();
    return session;
  }
  session::RestoredArray Array(Handle handle, uint64_t name) {
    return {handle, std::make_shared<const buffers::ArraySpec>(TestCluster::Single(0, {2})), name};
  }
  absl::Status Ready(Session& session, Handle array) {
    absl::Status ready = absl::UnknownError("not yet");
    session.WhenReady({array}, [&](absl::Status status) { ready = std::move(status); });
    after_->Run();
    return ready;
  }

  const FakeWorker::Options kHost{"a", "i", 2};
  TestCluster before_{0, 0, Options(1)};
  std::unique_ptr<TestCluster> after_;
  FakeWorker* host_ = nullptr;
};

TEST_F(FormerSession, CanBeRestoredWhenItsHostsHaveReported) {
  EXPECT_THAT(host_->welcome.kept_sessions(), ElementsAre(kSession));
  EXPECT_TRUE(absl::IsResourceExhausted(after_->cluster->CanRestore(SessionId(kSession))));
  Report({Name(1)});
  EXPECT_TRUE(after_->cluster->CanRestore(SessionId(kSession)).ok());
  EXPECT_EQ(Open(0)->id(), SessionId(kSession + 1)) << "the number is not given again";
  const auto session = Open(kSession);
  EXPECT_EQ(session->id(), SessionId(kSession));
  EXPECT_TRUE(absl::IsUnavailable(after_->cluster->CanRestore(SessionId(kSession)))) << "once";
  after_->timers.Advance(kGrace + absl::Seconds(1));
  for (const Command& command : host_->log) EXPECT_NE(command.release_owner().session(), kSession);
}

TEST_F(FormerSession, HasTheArraysThatItsHostsHave) {
  Report({Name(1), Name(2), Name(3)});
  const auto session = Open(kSession);
  session::Restoration& restoration = *session->restoration();
  session::RestoredArray deleted = Array(14, 0), error = Array(15, 0);
  deleted.deleted = true;
  error.error = absl::OutOfRangeError("too large");
  ASSERT_TRUE(restoration.RestoreArrays({Array(11, Name(1)), Array(12, Name(1)), Array(13, Name(9)), deleted, error}).ok());
  EXPECT_TRUE(Ready(*session, 13).ok()) << "a request may have consumed it, which is carried out again";
  restoration.Finish({2}, 9);
  EXPECT_TRUE(Ready(*session, 11).ok());
  EXPECT_TRUE(Ready(*session, 12).ok());
  EXPECT_TRUE(absl::IsDataLoss(Ready(*session, 13)));
  EXPECT_EQ(Ready(*session, 15), absl::OutOfRangeError("too large"));
  EXPECT_TRUE(*session->IsDeleted(14));
  ASSERT_EQ(host_->Count(Command::kRelease), 1);
  EXPECT_THAT(host_->log.back().release().arrays(), ElementsAre(Name(3))) << "2 is that of a request which is carried out again";
  EXPECT_TRUE(session->Destruct({11}).ok());
  after_->Run();
  EXPECT_EQ(host_->Count(Command::kRelease), 1) << "it has another handle";
  EXPECT_TRUE(session->Destruct({12}).ok());
  after_->Run();
  EXPECT_THAT(host_->log.back().release().arrays(), ElementsAre(Name(1)));
}

TEST_F(FormerSession, MayNameNothingOfOthersAndDescribesArraysAsTheyAre) {
  Report({Name(1)});
  const auto session = Open(kSession);
  session::RestoredArray other = Array(11, Name(1, 8)), larger = Array(12, Name(1));
  larger.spec = std::make_shared<const buffers::ArraySpec>(TestCluster::Single(0, {200}));
  EXPECT_TRUE(absl::IsInvalidArgument(session->restoration()->RestoreArrays({other})));
  EXPECT_TRUE(absl::IsInvalidArgument(session->restoration()->RestoreArrays({larger})));
}

TEST_F(FormerSession, IsFreedWhenItsClientDoesNotComeInTime) {
  Report({Name(1)});
  after_->timers.Advance(kGrace + absl::Seconds(1));
  EXPECT_EQ(host_->Count(Command::kReleaseOwner), 1);
  const absl::Status late = after_->cluster->CanRestore(SessionId(kSession));
  EXPECT_TRUE(absl::IsUnavailable(late));
  EXPECT_THAT(std::string(late.message()), HasSubstr("has not come to the next one within 1m"));
}

TEST_F(FormerSession, EndsIfAComputationWasCut) {
  Report({Name(1)}, true);
  EXPECT_THAT(std::string(after_->cluster->CanRestore(SessionId(kSession)).message()), HasSubstr("a computation was under way"));
}

// A session with virtual devices, of which `slices` are told by the client.
class FormerSlices : public FormerSession {
 protected:
  using What = SliceState::What;
  static constexpr int kFirst = resource::kFirstVirtualDevice.v;

  FormerSlices() { Report({Name(1)}); }
  static session::RestoredSlices Told() {
    session::RestoredSlices told;
    told.first = DeviceId(kFirst);
    told.kinds = {{"fake", 8}};
    told.last = SliceId(5);
    return told;
  }
  static session::RestoredSlices::Slice Placed(uint64_t id, std::vector<int> devices, std::vector<int> physical,
                                               bool exclusive = false) {
    session::RestoredSlices::Slice slice;
    slice.request.count = static_cast<int64_t>(devices.size());
    slice.request.exclusive = exclusive;
    slice.state.slice = SliceId(id);
    slice.state.what = What::kPlaced;
    slice.state.island = "i";
    slice.state.epoch = 3;
    for (int device : devices) slice.state.devices.push_back(DeviceId(kFirst + device));
    for (int device : physical) slice.state.physical.push_back(DeviceId(device));
    return slice;
  }
  // Asks for a slice of one device, as another client. Returns the answer once there is one.
  std::shared_ptr<std::optional<SliceState>> AskForOne(const Session& session, bool exclusive = false) {
    auto answer = std::make_shared<std::optional<SliceState>>();
    resource::SliceRequest request;
    request.count = 1;
    request.exclusive = exclusive;
    after_->cluster->AddSlice(session.id(), request, [answer](absl::StatusOr<SliceState> state) { *answer = *state; });
    after_->Run();
    return answer;
  }
};

TEST_F(FormerSlices, HaveTheirDevicesAndNumbersAgain) {
  const auto stranger = Open(0);
  const auto asked = AskForOne(*stranger);
  after_->timers.Advance(absl::Seconds(5));
  EXPECT_FALSE(asked->has_value()) << "session 7 may come back with slices";
  EXPECT_NE(after_->cluster->Spares(stranger->id())->devices[0].id, DeviceId(kFirst));

  const auto session = Open(kSession);
  session::RestoredSlices told = Told();
  told.slices = {Placed(4, {2, 0}, {1, 0}, true)};
  ASSERT_TRUE(after_->cluster->RestoreSlices(session->id(), told).ok());
  session::RestoredArray array = Array(11, Name(1));
  array.spec = std::make_shared<const buffers::ArraySpec>(TestCluster::Single(kFirst + 2, {2}));
  ASSERT_TRUE(session->restoration()->RestoreArrays({array}).ok());
  session->restoration()->Finish({}, 9);
  EXPECT_EQ(after_->cluster->fabric().topology().FindDevice(DeviceId(kFirst + 2))->physical, DeviceId(1));
  EXPECT_TRUE(Ready(*session, 11).ok());

  after_->timers.Advance(absl::Seconds(2));
  ASSERT_TRUE(asked->has_value());
  EXPECT_EQ((*asked)->what, What::kWaiting) << "both devices are exclusively those of slice 4";
  EXPECT_EQ((*asked)->slice, SliceId(6));
  EXPECT_TRUE(after_->cluster->ReleaseSlice(session->id(), SliceId(4)).ok());
  after_->Run();
  EXPECT_THAT(std::string(Ready(*session, 11).message()), HasSubstr("slice 4 was released"));
  const auto mine = AskForOne(*session);
  ASSERT_TRUE(mine->has_value());
  EXPECT_EQ((*mine)->devices[0], DeviceId(kFirst + 1)) << "one that was never used";
}

TEST_F(FormerSlices, AreNotGivenWhatIsSomebodyElsesNow) {
  const auto stranger = Open(0);
  resource::SliceRequest request;
  request.count = 1;
  request.exclusive = true;
  after_->cluster->Spares(stranger->id());
  after_->timers.Advance(absl::Seconds(70));  // nobody came
  ASSERT_TRUE(after_->cluster->AddSlice(stranger->id(), request).ok());
  const auto session = Open(20);
  session::RestoredSlices told = Told();
  told.slices = {Placed(4, {0, 1}, {0, 1})};
  const absl::Status refused = after_->cluster->RestoreSlices(session->id(), told);
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is in use by a slice of another client"));
}

TEST_F(FormerSlices, OfALostHostAreLost) {
  const auto session = Open(kSession);
  session::RestoredSlices told = Told();
  told.slices = {Placed(4, {0}, {17})};
  told.slices[0].state.island = "gone";
  ASSERT_TRUE(after_->cluster->RestoreSlices(session->id(), told).ok());
  session::RestoredArray array = Array(11, Name(1));
  array.spec = std::make_shared<const buffers::ArraySpec>(TestCluster::Single(kFirst, {2}));
  ASSERT_TRUE(session->restoration()->RestoreArrays({array}).ok());
  session->restoration()->Finish({}, 9);
  const absl::Status lost = Ready(*session, 11);
  EXPECT_TRUE(absl::IsDataLoss(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("has not come back"));
  std::string status;
  after_->cluster->GetStatus([&](absl::StatusOr<std::string> json) { status = *json; });
  after_->Run();
  EXPECT_THAT(status, HasSubstr("broken"));
}

TEST_F(FormerSlices, ThatWaitedWaitAgain) {
  const auto session = Open(kSession);
  session::RestoredSlices told = Told();
  told.slices = {Placed(3, {0, 1}, {0, 1}, true), {}};
  told.slices[1].request.count = 2;
  told.slices[1].state.slice = SliceId(2);
  told.released = {{DeviceId(kFirst + 2), DeviceId(1)}};
  ASSERT_TRUE(after_->cluster->RestoreSlices(session->id(), told).ok());
  session->restoration()->Finish({}, 9);
  EXPECT_THAT(session->MakeArray(3, TestCluster::Single(kFirst + 2, {2}), {}).ToString(), HasSubstr("was released"));
  std::optional<SliceState> placed;
  after_->cluster->AwaitSlice(session->id(), SliceId(2), absl::Minutes(1), [&](auto state) { placed = *state; });
  after_->timers.Advance(absl::Seconds(5));
  EXPECT_FALSE(placed.has_value());
  EXPECT_TRUE(after_->cluster->ReleaseSlice(session->id(), SliceId(3)).ok());
  after_->Run();
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(placed->what, What::kPlaced);
  EXPECT_EQ(placed->devices[0], DeviceId(kFirst + 3));
}

TEST_F(FormerSlices, MustAddUp) {
  uint64_t number = 20;
  const auto restored = [&](session::RestoredSlices::Slice slice, int first = kFirst) {
    const auto session = Open(number++);
    session::RestoredSlices told = Told();
    told.first = DeviceId(first);
    told.slices = {std::move(slice)};
    return after_->cluster->RestoreSlices(session->id(), told);
  };
  EXPECT_TRUE(restored(Placed(1, {0, 1}, {0, 1})).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(restored(Placed(1, {0, 0}, {0, 1})))) << "a device twice";
  EXPECT_TRUE(absl::IsInvalidArgument(restored(Placed(1, {0, 1}, {1, 1})))) << "a physical device twice";
  EXPECT_TRUE(absl::IsInvalidArgument(restored(Placed(1, {8}, {0})))) << "none of its own";
  EXPECT_TRUE(absl::IsInvalidArgument(restored(Placed(1, {0}, {kFirst + 1})))) << "not physical";
  EXPECT_TRUE(absl::IsInvalidArgument(restored(Placed(1, {0}, {0}), kFirst + 1))) << "where no pool begins";
  EXPECT_TRUE(absl::IsInvalidArgument(restored(Placed(1, {0}, {0}), 0)));
}

TEST_F(FormerSession, HasExecutablesThatCannotRun) {
  Report({});
  const auto session = Open(kSession);
  const Handle unusable = session->restoration()->AddUnusable({DeviceId(0)}, absl::DataLossError("gone"));
  session::ExecuteRequest call;
  call.executable = unusable;
  call.results = {21};
  EXPECT_FALSE(session->Execute(call).ok());
  EXPECT_THAT(Ready(*session, 21).ToString(), HasSubstr("gone"));
  absl::Status described;
  session->GetProgramText(unusable, [&](absl::StatusOr<std::string> text) { described = text.status(); });
  after_->Run();
  EXPECT_EQ(described, absl::DataLossError("gone"));
  EXPECT_TRUE(session->DestructExecutable(unusable).ok());
}

TEST_F(Controllers, LaunchesGetGreaterNumbersThanThoseThatHostsHaveHad) {
  TestCluster t(0, 0, Options(2));
  t.Add({.name = "a", .island = "i", .devices = 1, .last_launch = 700});
  EXPECT_EQ(t.cluster->fabric().NextId(), 701u);
  t.Add({.name = "b", .island = "i", .devices = 1, .last_launch = 5});
  EXPECT_EQ(t.cluster->fabric().NextId(), 702u);
  const FakeWorker& wrong = t.Add({.name = "c", .island = "i", .devices = 1, .last_launch = UINT64_MAX});
  EXPECT_EQ(wrong.Count(Command::kWelcome), 0);
  EXPECT_EQ(wrong.Count(Command::kShutdown), 1);
}

TEST_F(Controllers, AHostOfALaterControllerIsLeftToItAndEndsThisOne) {
  TestCluster t(0, 0, Options(5));
  t.Add({"a", "i", 1});
  EXPECT_EQ(t.Add({.name = "b", .island = "i", .devices = 1, .epoch = 5}).Count(Command::kWelcome), 1);
  EXPECT_THAT(replaced_, ElementsAre());
  for (int i = 0; i < 2; ++i) {
    const FakeWorker& other = t.Add({.name = "c", .island = "i", .devices = 1, .epoch = 6});
    EXPECT_TRUE(other.closed);
    EXPECT_EQ(other.Count(Command::kWelcome), 0);
    EXPECT_EQ(other.Count(Command::kShutdown), 0) << "the worker goes on trying";
  }
  ASSERT_EQ(replaced_.size(), 1u);
  EXPECT_THAT(replaced_[0], HasSubstr("another controller has taken the place of this one"));
  EXPECT_THAT(replaced_[0], HasSubstr("epoch 6, later than 5"));
}

TEST_F(Controllers, AHostThatResumesMayShowThatToo) {
  TestCluster t(0, 0, Options(5));
  FakeWorker& a = t.Add({"a", "i", 1});
  a.Break();
  t.Run();
  a.welcome.set_epoch(6);
  a.ComeBack(&t.transport, t.address);
  t.Run();
  EXPECT_TRUE(a.closed);
  EXPECT_EQ(a.resumed, 0);
  EXPECT_EQ(a.given_up, "");
  EXPECT_EQ(replaced_.size(), 1u);
}

TEST_F(Controllers, TheFolderOfTheClusterMayShowThatToo) {
  uint64_t last = 5;
  ClusterOptions options = Options(5);
  options.last_epoch = [&last] { return last; };
  TestCluster t(0, 0, options);
  t.timers.Advance(absl::Seconds(5));
  EXPECT_THAT(replaced_, ElementsAre());
  last = 8;
  t.timers.Advance(absl::Seconds(5));
  EXPECT_THAT(replaced_, ElementsAre(HasSubstr("the cluster's folder shows epoch 8, later than 5")));
}

TEST_F(Controllers, AWorkerThatIsNotKeptLearnsByWhichController) {
  TestCluster t(0, 0, Options(5));
  FakeWorker& a = t.Add({"a", "i", 1});
  a.Break();
  a.welcome.set_key("another key");
  a.ComeBack(&t.transport, t.address);
  t.Run();
  EXPECT_THAT(a.given_up, HasSubstr("keeps no host"));
  EXPECT_EQ(a.given_up_by, a.welcome.incarnation());
  EXPECT_NE(a.given_up_by, 0u);
}

}  // namespace
}  // namespace pw::controller
