// Tenant: a client that knows which results to expect. For every array it tracks the value that arithmetic predicts, and the hosts that
// have held the array or its inputs. It checks every read against both.
//
// Arrays are f32[4], with the same contents on all their devices. Computations are those of the simulated device: a result is 1 plus the
// sum of (i + 1) times argument i.
//
// Violations (Referee):
//   - a wrong value
//   - an error in data that no lost host ever held
//   - an error caused by a lost host that does not name it
//   - two slices on one device, of which one is exclusive
//   - a missing answer (found at the end by counting requests and answers)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pathways/sim/client.h"
#include "pathways/sim/cluster.h"
#include "pathways/sim/referee.h"

namespace pw::sim {

using Four = std::array<float, 4>;
using Places = std::shared_ptr<const std::set<std::string>>;  // hosts, by name and life

struct Value {
  uint64_t handle = 0;
  std::vector<int32_t> devices;
  Four expected{};
  Places places;
};

struct Executable {
  uint64_t handle = 0;
  std::vector<int32_t> devices;
  int args = 1;
  bool usable = false;  // compiled without error
};

class Tenant {
 public:
  // Cluster and process must outlive it.
  Tenant(SimCluster* cluster, Process* process);

  // Opens the session, then passes the devices' ids to `ready`.
  void Open(std::function<void(std::vector<int32_t>)> ready);
  void Compile(std::vector<int32_t> devices, int args, int microseconds, std::function<void(Executable)> done);
  Value Make(std::vector<int32_t> devices, const Four& contents);
  Value Run(const Executable& executable, const std::vector<Value>& args);
  Value Copy(const Value& value, std::vector<int32_t> devices);
  // Loads a program of many nodes. The caller must know its arguments and results.
  void Load(const std::string& program, std::function<void(uint64_t handle)> done);
  Value RunProgram(uint64_t program, const Value& arg, std::vector<int32_t> devices, const Four& expected, const Places& through);
  // Reads and checks the value. `done` may be empty.
  void Read(const Value& value, std::function<void()> done);
  void Drop(const std::vector<Value>& values);
  // Gets a slice of `count` devices; `exclusive`: no other slice may be there, which the referee checks.
  void AddSlice(int count, bool exclusive, std::function<void(SliceId slice, std::vector<int32_t> devices)> done);
  void ReleaseSlice(SliceId slice);
  void Close();

  // Returns the hosts of these devices, and all hosts in `more`.
  Places PlacesOf(const std::vector<int32_t>& devices, const std::vector<Places>& more);

  Client& client() { return client_; }
  const std::string& name() const { return process_->name(); }
  uint64_t reads() const { return reads_; }
  uint64_t errors() const { return errors_; }

 private:
  Client::Answer Checked(const std::string& what, const Places& places);
  void Failed(const std::string& what, const Places& places, const absl::Status& status);
  void Compare(const Value& value, const absl::StatusOr<Bytes>& bytes);

  Process* const process_;
  Referee* const referee_;
  Client client_;
  std::map<int32_t, int32_t> physical_;  // of virtual devices
  std::set<SliceId> slices_;
  uint64_t reads_ = 0;
  uint64_t errors_ = 0;
};

}  // namespace pw::sim
