// GrowingFile: a file in memory that a client leaves for us (shared_directory.h), read while the client still writes it.
//
// Why what is there may be read. The stock client writes such a file from its beginning to its end, in one write(2). On tmpfs that copies page
// after page, and moves the size behind each page once the page has been copied; the size is stored with release order, and fstat loads it
// with acquire. So a byte below the size is the one that was written. It is not where a file is given its size first (ftruncate, fallocate) and
// its contents later, as another client might do: such a file is whole when it is first seen, or has holes, and is refused.
//
// Invariants:
//   GF-1  nothing may be read before the file has been seen longer than empty and shorter than whole
//   GF-2  a file that has holes, becomes shorter, grows beyond its size, loses its name, or is none of tmpfs is an error from then on
//   GF-3  reading ends with an error where the file has become shorter meanwhile; it does not end the process, as touching a mapping would
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/net/socket.h"

namespace pw::bulk {

class GrowingFile {
 public:
  // The file of host buffer `handle`, which need not be there yet. `size`: what it will have in the end. INVALID_ARGUMENT: a bad name of a
  // folder; NOT_FOUND: there is no such folder.
  static absl::StatusOr<GrowingFile> In(int directory, const std::string& subdirectory, uint64_t handle, int64_t size);

  int64_t size() const { return size_; }
  // How many bytes may be read. FAILED_PRECONDITION: it is no file to be read so.
  absl::StatusOr<int64_t> Look();
  // REQUIRES: Look has returned as much.
  absl::Status Read(int64_t offset, uint8_t* out, size_t bytes) const;
  // Takes its name away; it goes with this object.
  void Remove();

 private:
  GrowingFile(net::Fd folder, std::string name, int64_t size) : folder_(std::move(folder)), name_(std::move(name)), size_(size) {}
  absl::Status Open();

  net::Fd folder_, file_;
  std::string name_;
  int64_t size_ = 0;
  int64_t seen_ = 0;
};

}  // namespace pw::bulk
