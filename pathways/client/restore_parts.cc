#include "pathways/client/restore_parts.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "pathways/session/frames.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::Restore;
using ::pathways::v1::SessionRequest;

// Returns whether the request is done when its answer is known: it changes nothing, or the client tells what it has changed.
bool IsQuestion(const SessionRequest& request) {
  switch (request.kind_case()) {
    case SessionRequest::kAwaitReady:
    case SessionRequest::kAddSlice:
    case SessionRequest::kAwaitSlice:
    case SessionRequest::kFetch:
    case SessionRequest::kCostAnalysis:
    case SessionRequest::kProgramText:
    case SessionRequest::kProgramModule:
      return true;
    default:
      return false;
  }
}

class Writer {
 public:
  Writer(const SessionSlices& slices, const KeptRequests& kept, absl::FunctionRef<bool(uint64_t)> awaits)
      : kept_(kept), awaits_(awaits), up_to_(kept.settled_up_to()) {
    parts_.emplace_back();
    slices.Write(kept, parts_.back().frame.mutable_restore()->mutable_slices(), &last_);
    bytes_ = parts_.back().frame.ByteSizeLong();
  }

  // The state of an array before the requests that are not settled, and what settled requests have done to it since.
  void AddArray(session::Handle handle, const ArrayTable::Entry& entry) {
    const bool is_deleted = entry.deleted_by != 0 && entry.deleted_by <= up_to_;
    if (entry.request == 0 || kept_.IsSettled(entry.request)) {
      Restore& part = Room(64);
      auto& array = *part.add_arrays();
      array.set_handle(handle);
      array.set_spec(SpecOf(part, entry.spec));
      array.set_deleted(is_deleted);
      if (!is_deleted) array.set_name(entry.name);
      if (!is_deleted && entry.error != nullptr) session::ToProto(*entry.error, array.mutable_error());
    }
    if (entry.erased_by != 0 && kept_.IsSettled(entry.erased_by)) return last_.add_destructed(handle);
    if (!is_deleted && entry.deleted_by != 0 && kept_.IsSettled(entry.deleted_by)) last_.add_deleted(handle);
  }
  // Calls that are not settled run the program, so it has to be there before they are carried out.
  void AddProgram(session::Handle handle, const CompiledPrograms::Entry& entry) {
    compiled_.insert(entry.number);
    SessionRequest request = entry.request;
    request.mutable_compile()->clear_program_sha256();
    request.set_payload_bytes(entry.program.size());
    AddRequest(0, std::move(request), {entry.program});
    if (entry.dropped_by != 0 && kept_.IsSettled(entry.dropped_by)) last_.add_dropped(handle);
  }
  void AddRequest(uint64_t number, const net::ResumableStream::Message& message) {
    if (compiled_.contains(number)) return;
    SessionRequest request;
    request.ParseFromString(message.header);
    if (IsQuestion(request) && !awaits_(number)) return;
    AddRequest(number, std::move(request), message.payload);
  }
  std::vector<RestorePart> Finish(uint64_t last) {
    last_.set_last_request(last + 1);
    parts_.back().frame.mutable_restore()->MergeFrom(last_);
    return std::move(parts_);
  }

 private:
  void AddRequest(uint64_t number, SessionRequest request, const std::vector<Bytes>& payload) {
    size_t bytes = request.ByteSizeLong();
    for (const Bytes& piece : payload) bytes += piece.size();
    Room(bytes).add_numbers(number);
    *parts_.back().frame.add_requests() = std::move(request);
    for (const Bytes& piece : payload) {
      if (!piece.empty()) parts_.back().payload.push_back(piece);
    }
  }
  // Returns the part that takes so many bytes more.
  Restore& Room(size_t bytes) {
    if (bytes_ > 0 && bytes_ + bytes > session::kFrameBytes) {
      parts_.emplace_back();
      specs_.clear();
      bytes_ = 0;
    }
    bytes_ += bytes;
    return *parts_.back().frame.mutable_restore();
  }
  uint32_t SpecOf(Restore& part, const ArrayTable::SpecPtr& spec) {
    if (spec == nullptr) return 0;
    const auto [known, is_new] = specs_.try_emplace(spec.get(), part.specs_size() + 1);
    if (is_new) {
      session::ToProto(*spec, part.add_specs());
      bytes_ += part.specs(part.specs_size() - 1).ByteSizeLong();
    }
    return known->second;
  }

  const KeptRequests& kept_;
  const absl::FunctionRef<bool(uint64_t)> awaits_;
  const uint64_t up_to_;
  absl::flat_hash_set<uint64_t> compiled_;  // requests whose answers the client has
  std::vector<RestorePart> parts_;
  size_t bytes_ = 0;                                                // of the last part
  absl::flat_hash_map<const buffers::ArraySpec*, uint32_t> specs_;  // of the last part
  Restore last_;
};

}  // namespace

std::vector<RestorePart> RestorePartsOf(const ArrayTable& arrays, const CompiledPrograms& programs, const SessionSlices& slices,
                                        const KeptRequests& kept, const net::ResumableStream& stream, uint64_t last,
                                        absl::FunctionRef<bool(uint64_t)> awaits) {
  Writer writer(slices, kept, awaits);
  arrays.ForEach([&](session::Handle handle, const ArrayTable::Entry& entry) { writer.AddArray(handle, entry); });
  arrays.ForEachErased([&](session::Handle handle, const ArrayTable::Entry& entry) { writer.AddArray(handle, entry); });
  programs.ForEach([&](session::Handle handle, const CompiledPrograms::Entry& entry) { writer.AddProgram(handle, entry); });
  kept.ForEach([&](uint64_t number, const net::ResumableStream::Message& message) { writer.AddRequest(number, message); });
  stream.ForEachKept([&](uint64_t number, const net::ResumableStream::Message& message) {
    if (number <= last) writer.AddRequest(number, message);
  });
  return writer.Finish(last);
}

}  // namespace pw::client
