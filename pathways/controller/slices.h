// Slices: the virtual slices of all clients (paper 4.1), and the virtual devices by which each client names them.
//
// Virtual devices. A client is told of a pool of them when it connects, because it learns of no device later. Getting a slice binds
// some to physical devices, in the topology: from there on they are devices like any other to everything that plans commands, and
// what clients are told names them as the client did. A pool's ids belong to one session (SessionImpl refuses others').
//
// Which ids a slice gets: first those that were never used, so that a program's mistake, using devices of a released slice, is told
// as long as possible.
//
// Invariants:
//   SL-1  a virtual device is bound exactly while a slice has it, and is on the physical device that the table says; of a suspended
//         client's slices the table says none, and it stays on the last
//   SL-2  a session's end releases its slices and what it waits for, and frees its ids
//   SL-3  an Await is answered exactly once
//   SL-4  a slice that cannot be moved stays where it is, whole
// Strand-confined. Placement itself is resource/slice_table.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/executor.h"
#include "pathways/base/timer_queue.h"
#include "pathways/controller/fabric.h"
#include "pathways/controller/session.h"
#include "pathways/controller/session_impl.h"
#include "pathways/controller/status_report.h"
#include "pathways/resource/slice_table.h"

namespace pw::controller {

class Slices {
 public:
  // `strand` runs the timers' tasks. `find_session`: null if it is not open. `virtual_devices`: of each client; 0: by the cluster's
  // size.
  Slices(Fabric* fabric, int virtual_devices, Timers* timers, Executor* strand,
         std::function<SessionImpl*(SessionId)> find_session);

  std::shared_ptr<const SpareDevices> Spares(SessionId session);
  absl::StatusOr<SliceState> Add(SessionId session, const resource::SliceRequest& request);
  void Await(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done);
  absl::Status Release(SessionId session, SliceId slice);

  // Nothing new goes to the host of that name, and what is there goes elsewhere; `done` when the arrays have arrived. With `undo` it takes
  // slices again.
  void Drain(const std::string& host, bool undo, ResultCallback<DrainReport> done);

  void Suspend(SessionId session, ResultCallback<SuspendReport> done);
  void Resume(SessionId session, ResultCallback<SuspendReport> done);

  void EndSession(SessionId session);
  // Hosts have joined, or have been lost and are not in the topology any more.
  void TopologyChanged();

  std::vector<SliceStatus> Status() const;

 private:
  struct Spare {
    std::string kind;
    DeviceId physical;  // the last one; meaningful if used
    bool used = false;
    bool bound = false;
  };
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

  Pool& PoolOf(SessionId session);
  std::unique_ptr<Pool> MakePool() const;
  int PoolSize(size_t devices) const;
  Spare& SpareOf(Pool& pool, DeviceId device) { return pool.spares[device.v - pool.first.v]; }
  // Null if there are none left.
  static Spare* Choose(Pool& pool, const std::string& kind, DeviceId physical);
  absl::Status Bind(const resource::Slice& slice);
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
  resource::SliceTable table_;
  std::map<SessionId, std::unique_ptr<Pool>> pools_;
  std::map<SliceId, std::vector<DeviceId>> bound_;  // the virtual devices of each placed slice
  std::map<SliceId, std::pair<SessionId, resource::SliceRequest>> waiting_;
  std::map<SliceId, std::pair<SessionId, std::string>> refused_;  // after waiting, until it is released
  uint64_t next_waiter_ = 1;
  std::map<uint64_t, Waiter> waiters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
