#include "pathways/relay/file_upload.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"
#include "pathways/base/status_macros.h"
#include "pathways/bulk/chunks.h"
#include "pathways/bulk/shared_directory.h"

namespace pw::relay {
namespace {

using xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest;
constexpr size_t kChunk = size_t{2} << 20;

}  // namespace

ClientFiles::~ClientFiles() {
  for (const auto& [session, folder] : folders) bulk::RemoveClientFolder(directory, folder);
  if (directory >= 0) ::close(directory);
}

std::string ClientFiles::FolderIn(const std::string& session_metadata) {
  xla::ifrt::proxy::GrpcIfrtSessionMetadata metadata;
  if (!metadata.ParseFromString(session_metadata)) return "";
  const auto& attributes = metadata.initialization_data().attributes();
  const auto it = attributes.find(kFolderKey);
  return it == attributes.end() ? "" : it->second.string_value();
}

void ClientFiles::Add(uint64_t session, std::string folder) {
  if (directory >= 0 && !folder.empty()) folders.emplace(session, std::move(folder));
}

void ClientFiles::Remove(uint64_t session) {
  const auto it = folders.find(session);
  if (it == folders.end()) return;
  bulk::RemoveClientFolder(directory, it->second);
  folders.erase(it);
}

absl::StatusOr<std::unique_ptr<FileUpload>> FileUpload::Open(ClientFiles* files, grpc::ByteBuffer request) {
  GrpcHostBufferReadFromDiskRequest parsed;
  if (!grpc::SerializationTraits<GrpcHostBufferReadFromDiskRequest>::Deserialize(&request, &parsed).ok())
    return absl::InvalidArgumentError("a request to read a host buffer from a file does not parse");
  const auto folder = files->folders.find(parsed.metadata().session_id());
  if (folder == files->folders.end()) return nullptr;
  auto upload = std::make_unique<FileUpload>();
  PW_ASSIGN_OR_RETURN(upload->rest_, bulk::TakeSharedFile(files->directory, folder->second, parsed.metadata().handle(),
                                                          parsed.metadata().buffer_size(), &files->memory));
  upload->session_ = parsed.metadata().session_id();
  upload->handle_ = parsed.metadata().handle();
  upload->metadata_ = parsed.metadata().SerializeAsString();
  return upload;
}

grpc::ByteBuffer FileUpload::Next() {
  const size_t size = std::min(kChunk, rest_.size());
  grpc::ByteBuffer chunk = bulk::MakeChunk(rest_.Slice(0, size));
  rest_ = rest_.Slice(size, rest_.size() - size);
  return chunk;
}

}  // namespace pw::relay
