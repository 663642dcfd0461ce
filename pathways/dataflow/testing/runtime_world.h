// RuntimeWorld: a few hosts with a runtime each, on one thread, over memory transports. A seed decides the order of tasks of
// different hosts and of the two lanes of a connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/base/strand.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/dataflow/testing/manual_world.h"
#include "pathways/dataflow/transport_links.h"
#include "pathways/net/memory_transport.h"

namespace pw::dataflow {

class RuntimeWorld {
 public:
  RuntimeWorld(uint32_t hosts, uint64_t seed, const Operators& operators, const RuntimeKnobs& knobs = {})
      : executor_(seed), timers_(&clock_), operators_(operators) {
    for (uint32_t h = 0; h < hosts; ++h) hosts_.push_back(std::make_unique<Host>(this, HostId(h), knobs));
    for (auto& host : hosts_) {
      for (uint32_t h = 0; h < hosts; ++h) host->links.SetPeer(HostId(h), Address(h));
    }
  }
  ~RuntimeWorld() {
    hosts_.clear();
    executor_.RunUntilIdle();
  }

  Runtime& at(uint32_t host) { return *hosts_[host]->runtime; }
  TransportLinks& links(uint32_t host) { return hosts_[host]->links; }
  // Runs all tasks, and moves the clock on, until no task and no timer is left.
  void Settle() {
    do {
      executor_.RunUntilIdle();
    } while (timers_.Step());
  }
  // Runs all tasks without moving the clock.
  void SettleNow() { executor_.RunUntilIdle(); }
  bool RunOne() { return executor_.RunOne(); }
  // Kills the host's process: its connections break.
  void Kill(uint32_t host) { hosts_[host] = nullptr; }
  // Tells all other hosts that this host has left the cluster.
  void TellLost(uint32_t host) {
    for (auto& other : hosts_) {
      if (other != nullptr) other->links.RemovePeer(HostId(host), absl::UnavailableError("it has left"));
    }
  }
  void ExpectNothingLeft() {
    for (auto& host : hosts_) {
      if (host == nullptr) continue;
      EXPECT_EQ(host->runtime->live_runs(), 0u) << ToString(host->id);
    }
  }
  ManualClock& clock() { return clock_; }
  net::Counters totals() const { return network_.totals(); }

 private:
  struct Host {
    Host(RuntimeWorld* world, HostId id, const RuntimeKnobs& knobs)
        : id(id),
          strand(*world->strands_.emplace_back(std::make_unique<Strand>(&world->executor_))),
          transport(&world->network_, &world->executor_),
          links(&transport, &strand, {.self = id, .incarnation = 7}) {
      auto listening =
          transport.Listen(Address(id.v), [this](std::unique_ptr<net::Connection> c) { links.Accept(std::move(c)); });
      EXPECT_TRUE(listening.ok()) << listening.status();
      listener = *std::move(listening);
      runtime = std::make_unique<Runtime>(
          Runtime::Environment{id, &strand, &world->clock_, &world->timers_, &links, &world->operators_}, knobs);
    }
    const HostId id;
    Strand& strand;
    net::MemoryTransport transport;
    TransportLinks links;
    std::unique_ptr<net::Listener> listener;
    std::unique_ptr<Runtime> runtime;
  };
  static std::string Address(uint32_t host) { return absl::StrCat("tcp:host", host, ":1"); }

  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_;
  const Operators operators_;
  net::MemoryNetwork network_;
  std::vector<std::unique_ptr<Strand>> strands_;  // outlive killed hosts: a Connect may still be pending
  std::vector<std::unique_ptr<Host>> hosts_;
};

// An operator made of functions. Empty functions fall back to Operator's defaults.
struct FunctionOperator : Operator {
  std::function<void(Shard&)> on_start, on_inputs_closed, on_writable;
  std::function<void(Shard&, EdgeId, Tuple)> on_tuple;
  std::function<void()> on_destroy;

  ~FunctionOperator() override {
    if (on_destroy) on_destroy();
  }
  void OnStart(Shard& shard) override {
    if (on_start) on_start(shard);
  }
  void OnTuple(Shard& shard, EdgeId edge, Tuple tuple) override {
    if (on_tuple) on_tuple(shard, edge, std::move(tuple));
  }
  void OnInputsClosed(Shard& shard) override { on_inputs_closed ? on_inputs_closed(shard) : Operator::OnInputsClosed(shard); }
  void OnWritable(Shard& shard) override {
    if (on_writable) on_writable(shard);
  }
};

inline Operators::Factory MakeOf(std::function<std::unique_ptr<FunctionOperator>()> make) {
  return [make = std::move(make)](const OperatorContext&) -> absl::StatusOr<std::unique_ptr<Operator>> { return make(); };
}

inline Tuple TupleOf(std::string text) { return {Bytes::FromString(std::move(text)), {}}; }

}  // namespace pw::dataflow
