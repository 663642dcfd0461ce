// SeatLoader: loads a session's programs on a host that has taken the seat of a lost one (resource/topology.h, TO-7). The executables for
// the devices there are compiled again, for the new host. So are those that were compiled on stand-ins for the empty seat
// (SessionExecutables). Then the programs of many nodes are made anew. The arrays that were lost stay lost.
//
// Invariant ES-1: until all are loaded, the devices stay lost for this session. So a client never finds a device there without its
// own programs.
// Strand-confined.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/executables/executable_table.h"
#include "pathways/controller/session/executables/session_executables.h"
#include "pathways/controller/session/runs/session_programs.h"

namespace pw::controller {

class SeatLoader {
 public:
  // All must outlive this.
  SeatLoader(SessionContext* context, ExecutableTable* executable_table, SessionExecutables* executables,
             SessionPrograms* programs)
      : context_(context), executable_table_(executable_table), executables_(executables), programs_(programs) {}

  // Begins to load the programs. Uses of these devices get `until_loaded` until all are loaded there.
  void OnSeatTaken(const std::vector<DeviceId>& devices, const absl::Status& until_loaded);
  // The devices were lost again. Compilations that were under way for them fail by themselves.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost);

 private:
  struct Reloading;

  // Returns the executables to compile again: those on these devices that a host lacks, if all of their devices are there.
  std::vector<Handle> MissingOn(const absl::flat_hash_set<DeviceId>& seats) const;
  void Load();
  // Replaces the executables and programs, and lets the client use the devices.
  void Open();

  SessionContext* const context_;
  ExecutableTable* const executable_table_;
  SessionExecutables* const executables_;
  SessionPrograms* const programs_;
  std::shared_ptr<Reloading> reloading_;  // while executables are compiled for hosts that took seats
};

}  // namespace pw::controller
