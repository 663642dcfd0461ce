// Tenant: a client that knows what it should get. Every array it makes is followed by the value that arithmetic says it has and by
// the hosts on which it, and what it was made from, has been; every read is held against both.
//
// Arrays are f32[4], with the same contents on all their devices. Computations are the simulated device's: a result is 1 plus the
// sum of (i + 1) times argument i.
//
// What is a violation (Referee): a value that is wrong; an error of something that no lost host ever held; an error of a lost host
// that does not name it; an answer that does not come (counted at the end by requests and answers).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pathways/sim/client.h"
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
  bool usable = false;  // it compiled
};

class Tenant {
 public:
  Tenant(Network* network, Process* process, FrontDoor* door, Referee* referee);

  // Opens the session; then `ready` gets the devices' ids.
  void Open(std::function<void(std::vector<int32_t>)> ready);
  void Compile(std::vector<int32_t> devices, int args, int microseconds, std::function<void(Executable)> done);
  Value Make(std::vector<int32_t> devices, const Four& contents);
  Value Run(const Executable& executable, const std::vector<Value>& args);
  Value Copy(const Value& value, std::vector<int32_t> devices);
  // A program of many nodes: what it takes and gives is the caller's to know.
  void Load(const std::string& program, std::function<void(uint64_t handle)> done);
  Value RunProgram(uint64_t program, const Value& arg, std::vector<int32_t> devices, const Four& expected, const Places& through);
  // Reads and checks. `done` may be empty.
  void Read(const Value& value, std::function<void()> done);
  void Drop(const std::vector<Value>& values);
  void Close();

  // Where these devices are, and where `more` was.
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
  uint64_t reads_ = 0;
  uint64_t errors_ = 0;
};

}  // namespace pw::sim
