// Measures the controller's own code for one computation, from the client's request to its completion. Sizes: 8, 128 and 2048
// shards on one host, 128 on 16 hosts, 2048 on 512. They take turns in one run. The session, scheduler, planner and outbox are
// real. There are no sockets, no threads and no parsing; one computation is in flight, and its completions arrive at once. So
// this is only a part of a computation's cost. It does not measure the paper's figure 6: bench/paper does, with a client and
// sockets.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pathways/base/log.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/request_name.h"
#include "pathways/base/threads/clock.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/hosts/report_groups.h"
#include "pathways/controller/session/publications/publications.h"
#include "pathways/controller/session/session_impl.h"

namespace pw::controller {
namespace {

namespace v1 = ::pathways::v1;

class CountingConnection final : public net::Connection {
 public:
  void Start(Handler*) override {}
  void Send(std::string header, std::vector<Bytes>, net::Lane) override {
    ++frames;
    bytes += header.size();
  }
  bool CanSendBulk() const override { return true; }
  void Close(absl::Status) override {}
  net::Counters counters() const override { return {}; }
  const std::string& peer() const override { return peer_; }
  pw::net::PeerProof proof() const override { return pw::net::PeerProof::kOwn; }

  uint64_t frames = 0;
  uint64_t bytes = 0;

 private:
  const std::string peer_ = "a host that costs nothing";
};

// `hosts` hosts with `devices` devices each, and a client whose loop is y = f(y) over all devices.
class World {
 public:
  World(int hosts, int devices) : fabric_({}, {}, &clock_, [this](Task task) { tasks_.push_back(std::move(task)); }) {
    std::vector<resource::HostDescription> descriptions(hosts);
    for (int h = 0; h < hosts; ++h) {
      descriptions[h].name = absl::StrCat("h", h);
      descriptions[h].island = "i";
      descriptions[h].platform_name = "cpu";
      for (int d = 0; d < devices; ++d) {
        resource::DeviceDescription& device = descriptions[h].devices.emplace_back();
        device.kind = "simulated";
        device.memories.push_back({"device", 0});
      }
    }
    hosts_ = *fabric_.topology().FormCluster(std::move(descriptions));
    for (HostId host : hosts_) {
      fabric_.AddHost(host, &connection_);
      fabric_.SetProcessAddress(host, absl::StrCat("process ", host.v));
    }
    devices *= hosts;
    session_ = std::make_unique<SessionImpl>(SessionId(1), session::NewSession{.description = "bench"}, &fabric_,
                                             std::make_shared<Publications>(), [] {});
    const Handle first = Compile(devices, 0);
    step_ = Compile(devices, 1);
    Call(first, {}, latest_);
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      const Handle before = latest_++;
      Call(step_, {before}, latest_);
      session_->Destruct({before}).IgnoreError();
      RunTasks();
    }
    fabric_.Flush();
  }
  uint64_t frames() const { return connection_.frames; }
  uint64_t bytes() const { return connection_.bytes; }

 private:
  Handle Compile(int devices, int parameters) {
    CompileRequest request;
    request.format = "mlir";
    request.num_partitions = devices;
    Handle handle = 0;
    session_->Compile(std::move(request), [&](auto info) { handle = (*info)->handle; });
    fabric_.Flush();
    v1::Event event;
    auto& compiled = *event.mutable_compiled();
    compiled.set_executable(next_executable_);
    compiled.set_name("step");
    auto fill = [](auto* value) {
      value->set_dtype(11);
      value->add_shard_dims(4);
    };
    for (int i = 0; i < parameters; ++i) fill(compiled.add_parameters());
    fill(compiled.add_outputs());
    // Executables share one sequence of numbers with others, so the compilation's number is found by trying.
    while (handle == 0) {
      for (HostId host : hosts_) PW_CHECK(fabric_.OnEvent(host, event, Bytes()).ok());
      RunTasks();
      compiled.set_executable(++next_executable_);
      PW_CHECK(next_executable_ < 1000);
    }
    return handle;
  }

  void Call(Handle executable, std::vector<Handle> args, Handle result) {
    ExecuteRequest request;
    request.executable = executable;
    request.args = std::move(args);
    request.results = {result};
    session_->BeginRequest(++request_);
    PW_CHECK(session_->Execute(request).ok());
    session_->EndRequest();
    fabric_.Flush();
    const RequestName op{session_->id(), request_, OpCount(0, ReportGroups::Join(hosts_.size())), false};
    for (HostId host : hosts_) {
      v1::Event event;
      event.mutable_done()->add_ok(*op.Number());
      event.mutable_done()->add_device_microseconds(1);
      PW_CHECK(fabric_.OnEvent(host, event, Bytes()).ok());
    }
  }
  void RunTasks() {
    for (Task& task : std::exchange(tasks_, {})) std::move(task)();
  }

  SteadyClock clock_;
  std::vector<Task> tasks_;
  CountingConnection connection_;
  Fabric fabric_;
  std::vector<HostId> hosts_;
  std::unique_ptr<SessionImpl> session_;
  uint64_t next_executable_ = 1;
  uint64_t request_ = 0;
  Handle step_ = 0;
  Handle latest_ = 1;
};

struct Row {
  std::string name;
  int hosts;
  int shards;
  std::unique_ptr<World> world;
  std::vector<double> us;
  double frames = 0, bytes = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Run(int calls, int rounds, const std::string& json) {
  std::vector<Row> rows;
  for (int shards : {8, 128, 2048})
    rows.push_back({absl::StrCat(shards), 1, shards, std::make_unique<World>(1, shards), {}, 0, 0});
  for (auto [hosts, devices] : {std::pair(16, 8), std::pair(512, 4)})
    rows.push_back(
        {absl::StrCat(hosts, "x", devices), hosts, hosts * devices, std::make_unique<World>(hosts, devices), {}, 0, 0});
  SteadyClock clock;
  for (int round = 0; round <= rounds; ++round) {
    for (Row& row : rows) {
      const uint64_t frames = row.world->frames(), bytes = row.world->bytes();
      const absl::Time start = clock.Now();
      const int steps = std::max(10, calls / row.hosts);
      row.world->Steps(steps);
      const double us = absl::ToDoubleMicroseconds(clock.Now() - start) / steps;
      if (round > 0) row.us.push_back(us);
      row.frames = static_cast<double>(row.world->frames() - frames) / steps;
      row.bytes = static_cast<double>(row.world->bytes() - bytes) / steps;
    }
  }
  std::string figures;
  double least = 1e300, most = 0;
  for (Row& row : rows) {
    const double us = Median(row.us);
    if (row.hosts == 1) {
      least = std::min(least, us);
      most = std::max(most, us);
    }
    std::printf("%4d shards on %d host(s): %.2f us in the controller for a computation, %.2f frames and %.0f bytes to hosts\n",
                row.shards, row.hosts, us, row.frames, row.bytes);
    absl::StrAppendFormat(&figures, R"(%s"%s": {"us": %.3f, "frames": %.3f, "bytes": %.1f})", figures.empty() ? "" : ", ",
                          row.name, us, row.frames, row.bytes);
  }
  const double ratio = most / least;
  const std::string line = absl::StrFormat(
      R"({"bench": "dispatch", "figures": {%s}, "targets": [{"name": "dispatch, dearest / cheapest of 8, 128, 2048 shards", )"
      R"("value": %.3f, "limit": 1.2, "at_most": true, "met": %s}]})",
      figures, ratio, ratio <= 1.2 ? "true" : "false");
  std::printf("dispatch: dearest / cheapest %.2f (<= 1.2: %s)\n%s\n", ratio, ratio <= 1.2 ? "met" : "MISSED", line.c_str());
  if (!json.empty()) std::ofstream(json) << line << "\n";
  return 0;
}

}  // namespace
}  // namespace pw::controller

int main(int argc, char** argv) {
  std::string json;
  int calls = 20000, rounds = 9;
  pw::Flags flags("dispatch_bench", "What dispatching a computation costs the controller, for 8, 128 and 2048 shards.");
  flags.Add("json", &json, "PATH", "where to write the figures");
  flags.Add("calls", &calls, "N", "computations of a round");
  flags.Add("rounds", &rounds, "N", "rounds, of which the median counts");
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  return pw::controller::Run(calls, rounds, json);
}
