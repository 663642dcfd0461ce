#include "pathways/net/shared/shared_copy.h"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "pathways/base/status_macros.h"

namespace pw::net {
namespace {

constexpr size_t kMostParts = 4;
constexpr size_t kWorthwhilePart = size_t{8} << 20;

absl::Status Write(SharedMemory& memory, const Bytes& contents, size_t offset, size_t size) {
  const iovec piece = {const_cast<uint8_t*>(contents.data()) + offset, size};
  return memory.Write(offset, {&piece, 1});
}

// The state shared by the tasks of one copy. Each task writes its own part.
struct Copying {
  SharedMemory memory;
  Bytes contents;
  absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> done;
  std::vector<absl::Status> written;
  std::atomic<size_t> left;

  void End() {
    absl::Status status;
    for (const absl::Status& part : written) status.Update(part);
    absl::StatusOr<Bytes> copy = std::move(memory).Freeze();
    if (!status.ok()) copy = status;
    std::move(done)(std::move(copy));
  }
};

}  // namespace

absl::StatusOr<Bytes> SharedCopy(SharedMemoryFactory& factory, const Bytes& contents, uint64_t owner) {
  PW_ASSIGN_OR_RETURN(SharedMemory memory, factory.Create(contents.size(), owner));
  PW_RETURN_IF_ERROR(Write(memory, contents, 0, contents.size()));
  return std::move(memory).Freeze();
}

void SharedCopyOn(Executor* pool, SharedMemory memory, Bytes contents, absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> done) {
  const size_t size = contents.size();
  const size_t parts = std::clamp<size_t>(size / kWorthwhilePart, 1, kMostParts);
  auto copying = std::make_shared<Copying>();
  copying->memory = std::move(memory);
  copying->contents = std::move(contents);
  copying->done = std::move(done);
  copying->written.resize(parts);
  copying->left = parts;
  for (size_t part = 0; part < parts; ++part) {
    pool->Post([copying, part, begin = size / parts * part, end = part + 1 == parts ? size : size / parts * (part + 1)] {
      copying->written[part] = Write(copying->memory, copying->contents, begin, end - begin);
      if (--copying->left == 0) copying->End();
    });
  }
}

}  // namespace pw::net
