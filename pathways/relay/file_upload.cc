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
  ahead_.erase(session);
}

void ClientFiles::SendAhead(uint64_t session, uint64_t handle, int64_t bytes, ControllerLine* line) {
  const auto folder = folders.find(session);
  if (folder == folders.end()) return;
  absl::StatusOr<bulk::GrowingFile> file = bulk::GrowingFile::In(directory, folder->second, handle, bytes);
  if (!file.ok() || !ahead_[session].insert(handle).second) return;
  line->SendAhead({session, handle}, *std::move(file));
}

bool ClientFiles::TakeAhead(uint64_t session, uint64_t handle) {
  const auto handles = ahead_.find(session);
  return handles != ahead_.end() && handles->second.erase(handle) != 0;
}

absl::StatusOr<std::unique_ptr<FileUpload>> FileUpload::Open(ClientFiles* files, grpc::ByteBuffer request) {
  GrpcHostBufferReadFromDiskRequest parsed;
  if (!grpc::SerializationTraits<GrpcHostBufferReadFromDiskRequest>::Deserialize(&request, &parsed).ok())
    return absl::InvalidArgumentError("a request to read a host buffer from a file does not parse");
  if (!files->folders.contains(parsed.metadata().session_id())) return nullptr;
  auto upload = std::make_unique<FileUpload>();
  upload->files_ = files;
  upload->metadata_ = parsed.metadata();
  return upload;
}

absl::Status FileUpload::Take() {
  taken_ = true;
  const auto folder = files_->folders.find(buffer().session);
  if (folder == files_->folders.end()) return absl::NotFoundError("the session has ended");
  PW_ASSIGN_OR_RETURN(rest_, bulk::TakeSharedFile(files_->directory, folder->second, buffer().handle, bytes(), &files_->memory));
  return absl::OkStatus();
}

grpc::ByteBuffer FileUpload::Next() {
  const size_t size = std::min(kChunk, rest_.size());
  grpc::ByteBuffer chunk = bulk::MakeChunk(rest_.Slice(0, size));
  rest_ = rest_.Slice(size, rest_.size() - size);
  return chunk;
}

}  // namespace pw::relay
