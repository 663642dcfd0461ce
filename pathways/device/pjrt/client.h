// Client: a PJRT client with its devices and memories, shared by the programs and buffers of a runtime. Immutable once made. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/api.h"
#include "pathways/device/pjrt/client_option.h"
#include "pathways/device/pjrt/processes.h"

namespace pw::device::pjrt {

struct Memory {
  PJRT_Memory* handle;
  std::string kind;
};

struct Device {
  PJRT_Device* handle;
  DeviceInfo info;
  std::vector<Memory> memories;  // the first is the default
};

class Client {
 public:
  // `processes`: which other processes programs may span. Blocks until those of a fixed world have found each other.
  static absl::StatusOr<std::shared_ptr<const Client>> Create(std::shared_ptr<const Api> api, std::vector<ClientOption> options,
                                                              std::unique_ptr<Processes> processes);
  ~Client();

  const Api& api() const { return *api_; }
  PJRT_Client* handle() const { return handle_; }
  Processes& processes() const { return *processes_; }
  const RuntimeInfo& info() const { return info_; }
  const std::vector<Device>& devices() const { return devices_; }
  // Returns -1 if the handle is not in devices().
  int OrdinalOf(PJRT_Device* device) const;
  // Returns the plugin's id of a device of another process: the process's number, and the ordinal that the device has there.
  absl::StatusOr<int> IdOf(int process, int ordinal) const;
  // Tells the plugin that a process of a program is gone.
  void LoseProcess(const std::string& address, const absl::Status& why) const;
  // INVALID_ARGUMENT for an unknown ordinal or memory kind; an empty kind is the default.
  absl::StatusOr<const Memory*> FindMemory(int device, absl::string_view kind) const;

 private:
  Client(std::shared_ptr<const Api> api, PJRT_Client* handle, std::unique_ptr<Processes> processes)
      : api_(std::move(api)), handle_(handle), processes_(std::move(processes)) {}
  absl::Status ReadInfo();
  absl::Status ReadDevices();
  absl::Status ReadAllDevices();
  absl::StatusOr<PJRT_DeviceDescription*> DescriptionOf(PJRT_Device* handle) const;
  absl::StatusOr<int> ReadId(PJRT_DeviceDescription* description) const;
  // Tells the plugin of each process from number `first` on whether it is gone, and why.
  void TellStates(int first, const std::vector<bool>& gone, const absl::Status& why) const;
  absl::StatusOr<Device> ReadDevice(PJRT_Device* handle) const;
  absl::Status ReadMemories(Device* device) const;

  const std::shared_ptr<const Api> api_;
  PJRT_Client* const handle_;
  const std::unique_ptr<Processes> processes_;
  RuntimeInfo info_;
  std::vector<Device> devices_;
  std::map<PJRT_Device*, int> ordinals_;
  std::map<int, std::vector<int>> ids_;  // of the devices of each process, ascending; empty if programs span no processes
};

}  // namespace pw::device::pjrt
