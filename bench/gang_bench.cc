// Measures the scheduler's time for a computation: submission, grant, end. It must not grow with the number of devices, and must
// hardly grow with the number of clients.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "pathways/gang/scheduler.h"

namespace pw::gang {
namespace {

std::vector<DeviceId> Devices(int first, int count) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < count; ++d) devices.push_back(DeviceId(first + d));
  return devices;
}

// The loop of a single client, whose computations are granted at once.
void SubmitAndGrant(benchmark::State& state) {
  auto scheduler = *Scheduler::Create({});
  const std::vector<Scheduler::Place> places = {
      {IslandId(0), scheduler->Lane(IslandId(0), Devices(0, static_cast<int>(state.range(0))))}};
  int64_t now = 0;
  for (auto _ : state) {
    const GangId gang = scheduler->Submit({ClientId(1), ExecutableId(1), places}, now += 1000);
    benchmark::DoNotOptimize(scheduler->TakeGrants());
    scheduler->OnDone(gang, 1000);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(SubmitAndGrant)->Arg(8)->Arg(128)->Arg(2048);

// All clients have work waiting. Half of the clients use half of the devices.
void SubmitToAFullIsland(benchmark::State& state) {
  auto scheduler = *Scheduler::Create({});
  const int devices = static_cast<int>(state.range(0)), clients = static_cast<int>(state.range(1));
  const std::vector<Scheduler::Place> whole = {{IslandId(0), scheduler->Lane(IslandId(0), Devices(0, devices))}};
  const std::vector<Scheduler::Place> half = {{IslandId(0), scheduler->Lane(IslandId(0), Devices(0, devices / 2))}};
  int64_t now = 0;
  int turn = 0;
  auto submit = [&] {
    const int client = turn++ % clients;
    scheduler->Submit({ClientId(client), ExecutableId(client), client % 2 == 0 ? whole : half}, now += 1000);
  };
  for (int i = 0; i < 16 * clients; ++i) submit();
  std::vector<GangId> running = scheduler->TakeGrants();
  size_t next = 0;
  for (auto _ : state) {
    submit();
    scheduler->OnDone(running[next++], 100'000);
    for (GangId gang : scheduler->TakeGrants()) running.push_back(gang);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(SubmitToAFullIsland)->ArgsProduct({{8, 128, 2048}, {2, 16, 256}});

}  // namespace
}  // namespace pw::gang
