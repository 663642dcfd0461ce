// Cell: holds the PJRT buffer that a queued launch will make.
//
// A plugin's Execute may block (a full queue, a program that runs on the caller), but the worker's strand must not. So a thread of the
// runtime launches, in the order in which the strand called Execute. Until a launch has run, a cell stands for each of its results. The
// result's DeviceBuffer (buffer.h) and the callbacks that wait for it share the cell.
//
// Invariants:
//   CE-1  a cell is set once: to a buffer, which it owns and destroys, or to the error of its launch
//   CE-2  callbacks registered before Set run inside Set, in the order of registration; later ones run inside WhenSet. So a callback that
//         the strand registers runs before any launch for which the strand calls Execute afterwards, and which may donate the buffer
// Any thread. Callbacks must not block.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

class Cell {
 public:
  using Handle = absl::StatusOr<PJRT_Buffer*>;  // the buffer, or why there is none
  using Callback = absl::AnyInvocable<void(const Handle&) &&>;

  explicit Cell(std::shared_ptr<const Client> client) : client_(std::move(client)) {}
  // A cell that is set already: its buffer was not made by a launch.
  Cell(std::shared_ptr<const Client> client, PJRT_Buffer* handle) : client_(std::move(client)), handle_(handle) {}
  ~Cell();
  Cell(const Cell&) = delete;

  const std::shared_ptr<const Client>& client() const { return client_; }
  void Set(Handle handle);
  bool is_set() const {
    std::lock_guard<std::mutex> lock(mu_);
    return handle_.has_value();
  }
  // REQUIRES: it is set. The caller has seen is_set(), runs inside a callback, or runs in a launch that comes after the cell's own.
  const Handle& handle() const { return *handle_; }
  void WhenSet(Callback callback);

 private:
  const std::shared_ptr<const Client> client_;
  mutable std::mutex mu_;
  std::optional<Handle> handle_;   // guarded by mu_ until set, constant afterwards
  std::vector<Callback> waiters_;  // guarded by mu_
};

}  // namespace pw::device::pjrt
