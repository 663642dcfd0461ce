// Cell: holds the PJRT buffer that a queued launch will make.
//
// A plugin's Execute may block (a full queue, a program that runs on the caller), but the worker's strand must not. So launches run on
// their own thread, in the order of the Execute calls; until then a result is represented by its cell.
//
// Invariants:
//   CE-1  a cell is set once, to a buffer that it owns or to the error
//   CE-2  callbacks registered before Set run inside Set, in order; later ones run at once. So they all run before any later launch, which
//         may take the buffer over
// Any thread.
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
  using Handle = absl::StatusOr<PJRT_Buffer*>;
  using Callback = absl::AnyInvocable<void(const Handle&) &&>;

  explicit Cell(std::shared_ptr<const Client> client) : client_(std::move(client)) {}
  Cell(std::shared_ptr<const Client> client, PJRT_Buffer* handle) : client_(std::move(client)), handle_(handle) {}
  ~Cell();
  Cell(const Cell&) = delete;

  const std::shared_ptr<const Client>& client() const { return client_; }
  void Set(Handle handle);
  bool is_set() const {
    std::lock_guard<std::mutex> lock(mu_);
    return handle_.has_value();
  }
  // REQUIRES: is_set(), or the caller knows by other means that Set has returned.
  const Handle& handle() const { return *handle_; }
  void WhenSet(Callback callback);

 private:
  const std::shared_ptr<const Client> client_;
  mutable std::mutex mu_;
  std::optional<Handle> handle_;   // guarded by mu_ until set, constant afterwards
  std::vector<Callback> waiters_;  // guarded by mu_
};

}  // namespace pw::device::pjrt
