// FileUpload: an array that a client of this machine has left in a file (HostBufferReadFromDisk), on its way to a controller that does not see
// that file. It goes over the bulk line (controller_line.h); without one the controller gets what the stock client would have sent it without a
// file: a HostBufferStore. Much of a large one may have gone over the line already, while the client wrote it (store_ahead.h).
//
// Invariants:
//   FU-1  only files of the folder that the session named when it was opened are taken (bulk/shared_directory.h)
//   FU-2  the file has lost its name when Take returns, whatever it returns
// All on the relay's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "ifrt_proxy/grpc_ifrt_service.pb.h"
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"
#include "pathways/relay/controller_line.h"

namespace pw::relay {

// Where the clients of one relay leave their files.
struct ClientFiles {
  // The key of initialization_data under which a client names its folder in `directory`.
  static constexpr char kFolderKey[] = "pathways_relay_subdirectory";

  int directory = -1;                                  // a descriptor, or none: files are the controller's business
  absl::flat_hash_map<uint64_t, std::string> folders;  // by session
  net::SharedMemoryFactory memory;

  ClientFiles() = default;
  ~ClientFiles();

  // Of the session that the headers of an IfrtSession call open; empty: it has none.
  static std::string FolderIn(const std::string& session_metadata);
  void Add(uint64_t session, std::string folder);
  void Remove(uint64_t session);  // with what is left in its folder
  // The client writes the file of this buffer now, or soon.
  void SendAhead(uint64_t session, uint64_t handle, int64_t bytes, ControllerLine* line);
  // Whether it has been called for this buffer; once.
  bool TakeAhead(uint64_t session, uint64_t handle);

 private:
  absl::flat_hash_map<uint64_t, absl::flat_hash_set<uint64_t>> ahead_;  // handles, by session
};

class FileUpload {
 public:
  static constexpr char kMethod[] = "/HostBufferReadFromDisk";  // the end of it
  static constexpr char kStoreMethod[] = "/HostBufferStore";

  // Null if the session leaves no files with the relay. INVALID_ARGUMENT if the request does not parse.
  static absl::StatusOr<std::unique_ptr<FileUpload>> Open(ClientFiles* files, grpc::ByteBuffer request);
  // The errors of TakeSharedFile.
  absl::Status Take();

  ControllerLine::Buffer buffer() const { return {metadata_.session_id(), metadata_.handle()}; }
  int64_t bytes() const { return metadata_.buffer_size(); }
  bool taken() const { return taken_; }
  const Bytes& data() const { return rest_; }
  // Of a HostBufferStore: its header, then its messages.
  std::string metadata() const { return metadata_.SerializeAsString(); }
  bool done() const { return rest_.empty(); }
  grpc::ByteBuffer Next();

 private:
  ClientFiles* files_ = nullptr;
  xla::ifrt::proxy::GrpcHostBufferStoreMetadata metadata_;
  bool taken_ = false;
  Bytes rest_;
};

}  // namespace pw::relay
