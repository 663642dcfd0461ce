// Breaks lanes and other connections of a client at random moments, again and again: arrays arrive unchanged.
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "tests/session/lane_cluster.h"

namespace pw::session {
namespace {

using controller::TestCluster;

constexpr int kHosts = 2;

// Puts, copies, fetches and drops arrays of random sizes, most of them by lane, on one host or both.
class LaneScript {
 public:
  LaneScript(uint32_t seed, LaneCluster* cluster) : random_(seed), t_(*cluster) { Put(); }

  // Returns the number of broken connections.
  int Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      for (int events = Random(40); events > 0; --events) {
        if (Random(10) == 0) broken_ += t_.remote->lanes().Break(HostId(static_cast<uint32_t>(Random(kHosts)))) ? 1 : 0;
        if (Random(80) == 0) t_.cut.Cut();
        if (!t_.executor.RunOne()) break;
      }
    }
    for (const auto& [handle, value] : values_) Fetch(handle);
    t_.Run();
    for (int i = 0; i < 20 && open_ > 0; ++i) {  // clients reconnect
      t_.timers.Advance(absl::Milliseconds(100));
      t_.Run();
    }
    EXPECT_EQ(open_, 0) << "all that was asked is answered";
    EXPECT_EQ(t_.remote->lanes().num_fetches(), 0);
    return broken_ + t_.cut.cuts;
  }

 private:
  struct Value {
    buffers::ArraySpec spec;
    std::string contents;
  };

  int Random(int below) { return static_cast<int>(random_() % below); }
  Handle Any() {
    auto it = values_.begin();
    std::advance(it, Random(static_cast<int>(values_.size())));
    return it->first;
  }
  void Step() {
    switch (Random(5)) {
      case 0:
      case 1:
        return Put();
      case 2:
        return Copy(Any(), Random(kHosts));
      case 3:
        return Drop();
      default:
        return Fetch(Any());
    }
  }
  void Put() {
    const Handle handle = next_++;
    const int64_t size = Random(40) == 0 ? (1 << 20) + Random(2 << 20) : 1 + Random(400);
    const bool both = Random(2) == 0;
    const int device = Random(kHosts);
    const buffers::Sharding sharding = both ? buffers::Sharding::Replicated(TestCluster::Devices(0, kHosts), "")
                                            : buffers::Sharding::SingleDevice(DeviceId(device), "");
    const buffers::ArraySpec spec{buffers::DType::kU8, {size}, sharding};
    const std::string text = LaneCluster::Pattern(static_cast<size_t>(size), static_cast<int>(handle));
    const HostShard source{
        handle, {buffers::DType::kU8, {size}, std::nullopt}, both ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{0}};
    auto store = [&] { EXPECT_TRUE(t_.session->StoreHostBuffer(handle, Bytes::Copy(text)).ok()); };
    auto make = [&] { EXPECT_TRUE(t_.session->MakeArray(handle, spec, {source}).ok()); };
    if (Random(2) == 0) {
      store(), make();
    } else {
      make(), store();
    }
    values_[handle] = {spec, text};
  }
  void Copy(Handle from, int device) {
    if (values_[from].spec.sharding.num_shards() != 1) return;
    const Handle handle = next_++;
    EXPECT_TRUE(
        t_.session->Copy({handle}, {from}, TestCluster::Devices(device, 1), std::nullopt, CopySemantics::kAlwaysCopy).ok());
    Value copy = values_[from];
    copy.spec.sharding = copy.spec.sharding.WithDevices(TestCluster::Devices(device, 1));
    values_[handle] = std::move(copy);
  }
  void Drop() {
    if (values_.size() < 4) return;
    const Handle handle = Any();
    EXPECT_TRUE(t_.session->Destruct({handle}).ok());
    values_.erase(handle);
  }
  void Fetch(Handle handle) {
    ++open_;
    const Handle buffer = next_++;
    t_.session->CopyToHostBuffer(handle, buffer, std::nullopt,
                                 [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    t_.session->LookupHostBuffer(buffer, [this, expected = values_[handle].contents](absl::StatusOr<Bytes> bytes) {
      --open_;
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(bytes->view() == expected);
    });
    EXPECT_TRUE(t_.session->DeleteHostBuffer(buffer).ok());
  }

  std::mt19937 random_;
  LaneCluster& t_;
  Handle next_ = 1;
  std::map<Handle, Value> values_;
  int open_ = 0;  // fetches without an answer
  int broken_ = 0;
};

TEST(BrokenLanesTest, AThousandBreaksChangeNothing) {
  int breaks = 0;
  for (uint32_t seed = 1; breaks < 1'000; ++seed) {
    SCOPED_TRACE(seed);
    LaneCluster t(kHosts, 1);
    ASSERT_TRUE(t.ConnectWithLanes().ok());
    LaneScript script(seed, &t);
    breaks += script.Run(150);
    if (HasFailure()) return;
    EXPECT_EQ(t.remote->lanes().buffers().size(), 0) << "the client keeps nothing that has arrived";
    t.session = nullptr;
    t.remote = nullptr;
    ASSERT_EQ(t.Arrays(), 0) << "nothing is left behind";
    for (const auto& host : t.hosts) ASSERT_EQ(host->live_buffers(), 0);
    ASSERT_LT(seed, 2'000);
  }
}

}  // namespace
}  // namespace pw::session
