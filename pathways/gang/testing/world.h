// World: simulated devices for tests of the scheduler. Every device launches gangs in the order of grants. A gang starts when it is
// first on all its devices and its producers have ended, and runs for as long as the test says. Time is a number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/gang/scheduler.h"

namespace pw::gang {

class World {
 public:
  explicit World(const Options& options) : scheduler(*Scheduler::Create(options)) {}

  struct Part {
    uint32_t island;
    std::vector<int> devices;
  };
  // Devices of different islands must have different numbers. Parts may come in any order.
  GangId Submit(uint64_t client, uint64_t executable, std::vector<Part> parts, int64_t run_ns,
                std::vector<GangId> producers = {}) {
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.island < b.island; });
    std::vector<Scheduler::Place> places;
    Run run{client, run_ns, {}, producers};
    for (const Part& part : parts) {
      std::vector<DeviceId> devices;
      for (int d : part.devices) devices.push_back(DeviceId(d)), run.devices.push_back(d);
      places.push_back({IslandId(part.island), scheduler->Lane(IslandId(part.island), devices)});
    }
    const GangId id = scheduler->Submit({ClientId(client), ExecutableId(executable), places, producers}, now);
    runs.insert({id, std::move(run)});
    Collect();
    return id;
  }
  void Cancel(uint64_t client) {
    for (auto& [id, run] : runs) {
      if (run.client == client && run.state == State::kWaiting) run.state = State::kGone;
    }
    scheduler->Cancel(ClientId(client));
    Collect();
  }
  void SetShare(uint64_t client, const Share& share) {
    scheduler->SetShare(ClientId(client), share);
    Collect();
  }
  void Lose(std::vector<int> devices) {
    std::vector<DeviceId> ids;
    for (int d : devices) ids.push_back(DeviceId(d));
    scheduler->OnDevicesLost(ids);
    Collect();
  }
  // Moves on to the next end of a gang, or to the time at which the scheduler wants to look again. Returns false if there is neither.
  bool Step() {
    while (!ends_.empty()) {
      if (const int64_t wake = scheduler->WakeAt(); wake < ends_.top().first) {
        now = std::max(now, wake);
        scheduler->Advance(now);
        Collect();
        return true;
      }
      const auto [at, id] = ends_.top();
      ends_.pop();
      Run& run = runs.at(id);
      if (run.state != State::kRunning) continue;
      now = std::max(now, at);
      run.state = State::kDone;
      done_ns[run.client] += run.run_ns * static_cast<int64_t>(run.devices.size());
      Leave(id);
      scheduler->OnDone(id, run.run_ns, now);
      Collect();
      return true;
    }
    return false;
  }
  void RunUntil(int64_t end) {
    while (!ends_.empty() && ends_.top().first <= end) Step();
    now = std::max(now, end);
  }

  enum class State { kWaiting, kGranted, kRunning, kDone, kGone };
  struct Run {
    uint64_t client;
    int64_t run_ns;
    std::vector<int> devices;
    std::vector<GangId> producers;
    State state = State::kWaiting;
    bool ended() const { return state == State::kDone || state == State::kGone; }
  };

  std::unique_ptr<Scheduler> scheduler;
  int64_t now = 0;
  std::map<GangId, Run> runs;
  std::vector<GangId> grants;
  std::map<int, std::vector<GangId>> launches;  // by device, in order
  std::map<uint64_t, int64_t> done_ns;          // device time by client

 private:
  void Collect() {
    for (GangId id : scheduler->TakeLost()) {
      if (auto it = runs.find(id); it != runs.end()) it->second.state = State::kGone, Leave(id);
    }
    for (GangId id : scheduler->TakeGrants()) {
      Run& run = runs.at(id);
      grants.push_back(id);
      if (run.state == State::kGone) continue;
      EXPECT_EQ(run.state, State::kWaiting) << ToString(id) << " is granted twice or after its end";
      for (GangId producer : run.producers) EXPECT_NE(runs.at(producer).state, State::kWaiting) << "granted before a producer";
      run.state = State::kGranted;
      for (int d : run.devices) queues_[d].push_back(id), launches[d].push_back(id);
    }
    StartAll();
  }
  void Leave(GangId id) {
    for (int d : runs.at(id).devices) std::erase(queues_[d], id);
  }
  void StartAll() {
    std::set<GangId> heads;
    for (const auto& [device, queue] : queues_) {
      if (!queue.empty()) heads.insert(queue.front());
    }
    for (GangId id : heads) {
      Run& run = runs.at(id);
      if (run.state != State::kGranted) continue;
      const bool first = std::all_of(run.devices.begin(), run.devices.end(), [&](int d) { return queues_[d].front() == id; });
      const bool ready = std::all_of(run.producers.begin(), run.producers.end(), [&](GangId p) { return runs.at(p).ended(); });
      if (!first || !ready) continue;
      run.state = State::kRunning;
      ends_.push({now + run.run_ns, id});
    }
  }

  std::map<int, std::deque<GangId>> queues_;
  std::priority_queue<std::pair<int64_t, GangId>, std::vector<std::pair<int64_t, GangId>>, std::greater<>> ends_;
};

}  // namespace pw::gang
