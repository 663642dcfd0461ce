// Slices: the virtual slices of all clients (paper 4.1), and the virtual devices by which each client names them. ClusterImpl owns it;
// resource/slice_table.h decides the placement.
//
// Virtual devices. When a client connects it gets a pool of virtual devices, because it cannot learn of devices later. A slice binds some
// of them to physical devices in the topology. From then on, code that plans commands treats them like any other device, and errors and
// reports name them by the client's ids. A pool's ids belong to one session (SessionImpl refuses those of others).
//
// A slice gets ids that were never used before, as long as the pool has some. A program that uses devices of a released slice by
// mistake then gets an error.
//
// Controllers that return. A session of the controller before gets its virtual devices back under their ids, and its slices on the same
// physical devices, where its arrays are (slices_restore.cc). Until all such sessions are back, the pools of new sessions have ids far from
// theirs, and no slice is placed or moved (SetHeld).
//
// Invariants:
//   SL-1  a virtual device is bound exactly while a slice has it and its host is present, to the physical device that the table
//         names. The table names no devices for the slices of a suspended client: a virtual device then stays bound to the last
//         one
//   SL-2  the end of a session releases its slices and pending requests, and frees its ids
//   SL-3  an Await is answered exactly once
//   SL-4  a slice that cannot be moved stays where it is, whole
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/session.h"
#include "pathways/controller/session/moves/session_mover.h"
#include "pathways/controller/session/session_impl.h"
#include "pathways/controller/status_report.h"
#include "pathways/resource/slice_table.h"
#include "pathways/session/restored_slices.h"

namespace pw::controller {

class Slices {
 public:
  // `strand` runs the timers' tasks. `find_session` returns null if the session is not open. `virtual_devices`: the number for
  // each client; 0: by the size of the cluster.
  Slices(Fabric* fabric, int virtual_devices, Timers* timers, Executor* strand,
         std::function<SessionImpl*(SessionId)> find_session);

  std::shared_ptr<const SpareDevices> Spares(SessionId session);
  absl::StatusOr<SliceState> Add(SessionId session, const resource::SliceRequest& request);
  void Await(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done);
  absl::Status Release(SessionId session, SliceId slice);
  // Makes the virtual devices and slices of a session of the controller before, which has none yet. UNAVAILABLE: they are somebody else's now.
  absl::Status Restore(SessionId session, const session::RestoredSlices& slices);
  void SetHeld(bool held);

  // Places no new slices on the host with that name, and moves its slices elsewhere; `done` runs when their arrays have arrived.
  // With `undo` the host takes slices again.
  void Drain(const std::string& host, bool undo, ResultCallback<DrainReport> done);

  void Suspend(SessionId session, ResultCallback<SuspendReport> done);
  void Resume(SessionId session, ResultCallback<SuspendReport> done);

  // Sets the quotas of the clients' users. Recheck places slices for which they have room now.
  void SetQuotas(resource::SliceTable::RoomFor room_for) { table_.SetQuotas(std::move(room_for)); }
  void Recheck() { Learn(table_.Recheck()); }
  int64_t DevicesOf(SessionId session) const { return table_.DevicesOf(session); }

  void EndSession(SessionId session);
  // Call after hosts have joined, or were lost and removed from the topology.
  void TopologyChanged();

  std::vector<SliceStatus> Status() const;

 private:
  struct Spare {
    std::string kind;
    DeviceId physical;  // the last one; valid if used
    bool used = false;
    bool bound = false;
  };
  // Device ids reserved for each pool; few enough that the pools of all open sessions fit. Half of them are scratch ids (SessionMover).
  static constexpr int kPoolIds = 1 << 16;
  static constexpr size_t kLargestPool = kPoolIds / 2;
  struct Pool {
    int slot = 0;
    DeviceId first;
    std::vector<Spare> spares;
    std::shared_ptr<const SpareDevices> shown;
  };
  struct Waiter {
    SessionId session;
    SliceId slice;
    ResultCallback<SliceState> done;
  };

  // -- slices_suspend.cc
  absl::StatusOr<SessionImpl*> FindSession(SessionId session) const;
  void FinishResume(SessionId session, const DeviceMapping& to, absl::Status status, ResultCallback<SuspendReport> done);

  // -- slices_drain.cc
  using Slice = resource::Slice;
  struct Drainage;
  absl::StatusOr<HostId> FindHost(const std::string& name) const;
  void MoveSlices(SessionId session, std::vector<SliceId> slices, const std::shared_ptr<Drainage>& drainage);
  void FinishMove(SessionId session, const std::vector<SliceId>& slices, const DeviceMapping& to, absl::Status status,
                  const std::shared_ptr<Drainage>& drainage);

  // -- slices_restore.cc
  absl::Status RestorePool(SessionId session, const session::RestoredSlices& slices);
  absl::Status RestoreOne(SessionId session, const session::RestoredSlices::Slice& slice);
  absl::Status RestorePlaced(SessionId session, const session::RestoredSlices::Slice& slice);

  Pool& PoolOf(SessionId session);
  Pool& AddPool(SessionId session, std::unique_ptr<Pool> pool);
  // Tells the client where its slice is now.
  void TellMoved(SliceId slice) const;
  std::string IslandOf(const resource::Slice& slice) const;
  std::unique_ptr<Pool> MakePool() const;
  int PoolSize(size_t devices) const;
  Spare& SpareOf(Pool& pool, DeviceId device) { return pool.spares[device.v - pool.first.v]; }
  // Returns null if none is left.
  static Spare* Choose(Pool& pool, const std::string& kind, DeviceId physical);
  absl::Status Bind(const resource::Slice& slice);
  void BindAgain(const resource::Slice& slice, const std::vector<DeviceId>& devices);
  void Unbind(SessionId session, const std::vector<DeviceId>& devices);
  void Learn(const resource::Outcomes& outcomes);
  // NOT_FOUND if the session has no such slice.
  absl::StatusOr<SliceState> StateOf(SessionId session, SliceId slice) const;
  void AnswerWaiters(SliceId slice);
  void Answer(uint64_t waiter);

  Fabric* const fabric_;
  const int virtual_devices_;
  Timers* const timers_;
  Executor* const strand_;
  const std::function<SessionImpl*(SessionId)> find_session_;
  bool held_ = false;
  resource::SliceTable table_;
  std::map<SessionId, std::unique_ptr<Pool>> pools_;
  std::map<SliceId, std::vector<DeviceId>> bound_;  // the virtual devices of each placed slice
  std::map<SliceId, std::pair<SessionId, resource::SliceRequest>> waiting_;
  std::map<SliceId, std::pair<SessionId, std::string>> refused_;  // refused after waiting; kept until released
  uint64_t next_waiter_ = 1;
  std::map<uint64_t, Waiter> waiters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
