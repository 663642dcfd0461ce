// A session over a network that is cut again and again, at random moments: each request takes effect once, and results match a
// model.
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "tests/session/served_cluster.h"

namespace pw::session {
namespace {

using controller::TestCluster;
using Floats = std::vector<float>;

constexpr int kDevices = 2;

buffers::ArraySpec On(int device) { return TestCluster::Single(device, {4}, buffers::DType::kF32); }

::pathways::v1::Compiled Adder() {
  ::pathways::v1::Compiled toy;
  toy.set_name("add");
  for (auto* value : {toy.add_parameters(), toy.add_parameters(), toy.add_outputs()}) {
    value->set_dtype(static_cast<int>(buffers::DType::kF32));
    value->add_shard_dims(4);
  }
  return toy;
}

// Sends random requests, cuts the network between any two events, and compares the answers with the model.
class Script {
 public:
  Script(uint32_t seed, ServedCluster* cluster) : random_(seed), t_(*cluster) {
    for (int d = 0; d < kDevices; ++d) {
      auto info = t_.Compile(Adder(), TestCluster::Devices(d, 1));
      EXPECT_TRUE(info.ok()) << info.status();
      adders_[d] = (*info)->handle;
      Put(d);
    }
  }

  // Returns the number of cuts.
  int Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      // Runs some events, perhaps with a cut among them.
      for (int events = Random(12); events > 0; --events) {
        if (Random(25) == 0) t_.cut.Cut();
        if (!t_.executor.RunOne()) break;
      }
    }
    for (const auto& [handle, value] : values_) Fetch(handle);
    t_.Run();
    for (int i = 0; i < 3 && open_ > 0; ++i) {  // both ends may not have noticed the last cut yet
      t_.timers.Advance(absl::Seconds(1));
      t_.Run();
    }
    EXPECT_EQ(open_, 0) << "all that was asked is answered";
    return t_.cut.cuts;
  }

 private:
  struct Value {
    int device;
    Floats contents;
  };

  int Random(int below) { return static_cast<int>(random_() % below); }
  Handle Any() {
    auto it = values_.begin();
    std::advance(it, Random(static_cast<int>(values_.size())));
    return it->first;
  }
  void Step() {
    switch (Random(7)) {
      case 0:
        return Put(Random(kDevices));
      case 1:
      case 2:
        return Add(Any(), Any());
      case 3:
        return Copy(Any(), Random(kDevices));
      case 4:
        return Drop();
      case 5:
        return Fetch(Any());
      default:
        return Await(Any());
    }
  }
  void Put(int device) {
    const Handle handle = next_++;
    Floats contents;
    for (int i = 0; i < 4; ++i) contents.push_back(static_cast<float>(Random(1000)));
    std::string bytes(16, 0);
    std::memcpy(bytes.data(), contents.data(), 16);
    const HostShard source{handle, {buffers::DType::kF32, {4}, std::nullopt}, {0}};
    auto store = [&] { EXPECT_TRUE(t_.session->StoreHostBuffer(handle, Bytes::Copy(bytes)).ok()); };
    auto make = [&] { EXPECT_TRUE(t_.session->MakeArray(handle, On(device), {source}).ok()); };
    if (Random(2) == 0) {
      store(), make();
    } else {
      make(), store();
    }
    values_[handle] = {device, contents};
  }
  void Add(Handle a, Handle b) {
    if (values_[a].device != values_[b].device) return;
    const Handle handle = next_++;
    EXPECT_TRUE(t_.Execute(adders_[values_[a].device], {a, b}, {handle}).ok());
    Value sum = values_[a];
    for (int i = 0; i < 4; ++i) sum.contents[i] += values_[b].contents[i];
    values_[handle] = sum;
  }
  void Copy(Handle from, int device) {
    const Handle handle = next_++;
    EXPECT_TRUE(
        t_.session->Copy({handle}, {from}, TestCluster::Devices(device, 1), std::nullopt, CopySemantics::kAlwaysCopy).ok());
    values_[handle] = {device, values_[from].contents};
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
                                 [this, buffer, expected = values_[handle].contents](absl::Status status) {
                                   --open_;
                                   ASSERT_TRUE(status.ok()) << status;
                                   ++open_;
                                   t_.session->LookupHostBuffer(buffer, [this, expected](absl::StatusOr<Bytes> bytes) {
                                     --open_;
                                     ASSERT_TRUE(bytes.ok()) << bytes.status();
                                     ASSERT_EQ(bytes->size(), 16);
                                     EXPECT_EQ(std::memcmp(bytes->data(), expected.data(), 16), 0);
                                   });
                                   EXPECT_TRUE(t_.session->DeleteHostBuffer(buffer).ok());
                                 });
  }
  void Await(Handle handle) {
    ++open_;
    t_.session->WhenReady({handle}, [this](absl::Status status) {
      --open_;
      EXPECT_TRUE(status.ok()) << status;
    });
  }

  std::mt19937 random_;
  ServedCluster& t_;
  Handle adders_[kDevices];
  Handle next_ = 1;
  std::map<Handle, Value> values_;
  int open_ = 0;  // unanswered requests
};

TEST(BrokenLinksTest, TenThousandCutsChangeNothing) {
  int cuts = 0;
  for (uint32_t seed = 1; cuts < 10'000; ++seed) {
    SCOPED_TRACE(seed);
    ServedCluster t(kDevices, 1);
    ASSERT_TRUE(t.Connect().ok());
    Script script(seed, &t);
    cuts += script.Run(150);
    if (HasFailure()) return;
    t.session = nullptr;
    t.remote = nullptr;
    ASSERT_EQ(t.Shards(), 0) << "nothing is left behind";
    ASSERT_LT(seed, 20'000);
  }
}

}  // namespace
}  // namespace pw::session
