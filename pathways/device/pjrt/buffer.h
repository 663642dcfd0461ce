// Buffer: an array on one device; implements DeviceBuffer (device/device.h) with a PJRT buffer. The PJRT buffer is in a Cell (cell.h), because
// it may not exist yet: a queued launch makes it. Properties are known at once; methods that need the contents wait for the cell.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "pathways/device/device.h"
#include "pathways/device/pjrt/cell.h"

namespace pw::device::pjrt {

class Buffer : public DeviceBuffer {
 public:
  // The caller passes the properties of the cell's buffer, because asking the plugin for them takes four calls.
  Buffer(std::shared_ptr<Cell> cell, DType dtype, Dims dims, int device, std::string memory_kind)
      : cell_(std::move(cell)), dtype_(dtype), dims_(std::move(dims)), device_(device), memory_kind_(std::move(memory_kind)) {}

  DType dtype() const override { return dtype_; }
  const Dims& dims() const override { return dims_; }
  int device() const override { return device_; }
  const std::string& memory_kind() const override { return memory_kind_; }
  Future<Unit> Ready() override;
  Future<Bytes> ToHost() override;
  Future<Unit> CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void> owner) override;
  absl::StatusOr<Bytes> HostView() override;
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> CopyTo(int device, absl::string_view memory_kind) override;

  const std::shared_ptr<Cell>& cell() const { return cell_; }

 private:
  size_t HostBytes() const;
  // Returns UNIMPLEMENTED if the contents are not laid out densely in row-major order.
  absl::Status CheckRowMajor(PJRT_Buffer* handle) const;

  const std::shared_ptr<Cell> cell_;
  const DType dtype_;
  const Dims dims_;
  const int device_;
  const std::string memory_kind_;
};

// Makes a buffer with the contents of `array`, without a copy if the device shares the host's memory and alignment allows.
absl::StatusOr<std::unique_ptr<DeviceBuffer>> BufferFromHost(const std::shared_ptr<const Client>& client, HostArray array,
                                                             int device, absl::string_view memory_kind);

}  // namespace pw::device::pjrt
