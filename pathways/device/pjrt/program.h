// Program: a compiled program of a PJRT plugin; implements LoadedProgram (device/device.h) for the PJRT runtime (runtime.h).
//
// A plugin's Execute may block, but the worker's strand must not. So Execute here gives the launch to a launcher (launcher.h), and returns buffers whose
// cells (cell.h) the launch fills in, at once or later. A failed launch sets its error in the cells of its results.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"
#include "pathways/device/pjrt/host_callback.h"
#include "pathways/device/pjrt/launcher.h"

namespace pw::device::pjrt {

class Program : public LoadedProgram, public std::enable_shared_from_this<Program> {
 public:
  // Takes ownership of `loaded`. Returns INTERNAL if its devices are not `devices` in that order. Programs without host callbacks
  // have null `callbacks`. The `launcher` outlives the program.
  static absl::StatusOr<std::shared_ptr<LoadedProgram>> Wrap(std::shared_ptr<const Client> client, Launcher* launcher,
                                                             PJRT_LoadedExecutable* loaded, const std::vector<int>& devices,
                                                             std::shared_ptr<HostCallbacks> callbacks);
  ~Program() override;

  const ProgramInfo& info() const override { return info_; }
  absl::StatusOr<Launch> Execute(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) override;
  absl::StatusOr<std::string> Text() override;
  absl::StatusOr<std::string> Module() override;
  absl::StatusOr<std::map<std::string, double>> CostAnalysis() override;
  absl::StatusOr<std::string> Serialize() override;

 private:
  struct Order;  // a queued launch

  Program(std::shared_ptr<const Client> client, Launcher* launcher, PJRT_LoadedExecutable* loaded,
          std::shared_ptr<HostCallbacks> callbacks)
      : client_(std::move(client)), launcher_(launcher), loaded_(loaded), callbacks_(std::move(callbacks)) {}
  absl::Status Read(const std::vector<int>& devices);
  // Carries out a launch: enqueues it in the plugin; on failure, gives its results the error. Both run on the launcher.
  void Carry(Order& order);
  absl::Status Enqueue(Order& order);

  const std::shared_ptr<const Client> client_;
  Launcher* const launcher_;
  PJRT_LoadedExecutable* const loaded_;
  const std::shared_ptr<HostCallbacks> callbacks_;
  PJRT_Executable* executable_ = nullptr;
  ProgramInfo info_;  // constant once Wrap has returned
};

}  // namespace pw::device::pjrt
