// Compiled programs over PJRT.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"
#include "pathways/device/pjrt/host_callback.h"

namespace pw::device::pjrt {

class Program : public LoadedProgram {
 public:
  // Takes ownership of `loaded`, whose devices must be `devices` in that order. `callbacks` is null for programs without host
  // callbacks.
  static absl::StatusOr<std::shared_ptr<LoadedProgram>> Wrap(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* loaded,
                                                             const std::vector<int>& devices,
                                                             std::shared_ptr<HostCallbacks> callbacks);
  ~Program() override;

  const ProgramInfo& info() const override { return info_; }
  absl::StatusOr<Launch> Execute(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) override;
  absl::StatusOr<std::string> Text() override;
  absl::StatusOr<std::map<std::string, double>> CostAnalysis() override;
  absl::StatusOr<std::string> Serialize() override;

 private:
  Program(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* loaded, std::shared_ptr<HostCallbacks> callbacks)
      : client_(std::move(client)), loaded_(loaded), callbacks_(std::move(callbacks)) {}
  absl::Status Read(const std::vector<int>& devices);
  absl::StatusOr<Launch> Run(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options,
                             PJRT_ExecuteContext* context);

  const std::shared_ptr<const Client> client_;
  PJRT_LoadedExecutable* const loaded_;
  const std::shared_ptr<HostCallbacks> callbacks_;
  PJRT_Executable* executable_ = nullptr;
  ProgramInfo info_;  // constant once Wrap has returned
};

}  // namespace pw::device::pjrt
