// Fuzzes the parsers of outside input for Python functions: functions that clients send, and packets that their processes send.
#include <cstddef>
#include <cstdint>
#include <string>

#include "pathways/base/log.h"
#include "pathways/session/host_function.h"
#include "pathways/worker/python/host_part.h"
#include "pathways/worker/python/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto read = pw::worker::ReadPacket(text, pw::net::Fd()); read.ok()) {
    size_t bytes = 0;
    for (const pw::Bytes& part : read->parts) bytes += part.size();
    PW_CHECK(bytes <= size);
  }
  const pw::Bytes payload = pw::Bytes::Copy(text);
  const auto function = pw::session::ParseHostFunction(payload);
  if (!function.ok()) return 0;
  pathways::v1::Compile command;
  for (size_t i = 0; i < function->devices.size(); ++i) {
    command.add_hosts(static_cast<uint32_t>(i % 2));
    command.add_local_devices(static_cast<int32_t>(i / 2));
  }
  const auto part = pw::worker::ReadHostPart(command, payload, pw::HostId(0), static_cast<int>(function->devices.size()));
  PW_CHECK(part.ok());
  return 0;
}
