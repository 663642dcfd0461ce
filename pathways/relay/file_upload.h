// FileUpload: an array that a client of this machine has left in a file (HostBufferReadFromDisk), on its way to a controller that does not see
// that file. It goes over the bulk line (controller_line.h); without one the controller gets what the stock client would have sent it without a
// file: a HostBufferStore.
//
// Invariants:
//   FU-1  only files of the folder that the session named when it was opened are taken (bulk/shared_directory.h)
//   FU-2  the file has lost its name when Open returns, whatever it returns
// All on the relay's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"

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
};

class FileUpload {
 public:
  static constexpr char kMethod[] = "/HostBufferReadFromDisk";  // the end of it
  static constexpr char kStoreMethod[] = "/HostBufferStore";

  // Null if the session leaves no files with the relay. The errors of TakeSharedFile, and INVALID_ARGUMENT if the request does not parse.
  static absl::StatusOr<std::unique_ptr<FileUpload>> Open(ClientFiles* files, grpc::ByteBuffer request);

  uint64_t session() const { return session_; }
  uint64_t handle() const { return handle_; }
  const Bytes& data() const { return rest_; }
  // Of a HostBufferStore: its header, then its messages.
  const std::string& metadata() const { return metadata_; }
  bool done() const { return rest_.empty(); }
  grpc::ByteBuffer Next();

 private:
  uint64_t session_ = 0, handle_ = 0;
  std::string metadata_;
  Bytes rest_;
};

}  // namespace pw::relay
