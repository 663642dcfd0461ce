// Bytes: a shared, immutable view of memory. Payloads travel as Bytes from a socket to a device buffer without a copy.
//
// A Bytes keeps its owner alive; slices share it. AlignedBytes allocates on a 64-byte boundary, which device runtimes require in order
// to adopt host memory instead of copying it. Any thread may copy or drop a Bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pw {

class Bytes {
 public:
  Bytes() = default;
  Bytes(std::shared_ptr<const void> owner, const void* data, size_t size)
      : owner_(std::move(owner)), data_(static_cast<const uint8_t*>(data)), size_(size) {}

  static Bytes Copy(std::string_view data);   // into aligned memory
  static Bytes FromString(std::string data);  // adopts the string

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // Returns the part [offset, offset + size). REQUIRES: it lies inside this view.
  Bytes Slice(size_t offset, size_t size) const;

 private:
  std::shared_ptr<const void> owner_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Writable memory on a 64-byte boundary, uninitialised; Freeze() turns it into Bytes once it is filled. Large memory requests large pages,
// which cut the cost of its first use to a third.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size);
  // Adopts existing memory. REQUIRES: `size` bytes on a 64-byte boundary.
  AlignedBytes(std::shared_ptr<uint8_t> memory, size_t size) : data_(std::move(memory)), size_(size) {}

  uint8_t* data() { return data_.get(); }
  size_t size() const { return size_; }
  std::shared_ptr<const void> owner() const { return data_; }
  const std::shared_ptr<uint8_t>& memory() const { return data_; }
  Bytes Freeze() && {
    const void* p = data_.get();
    return Bytes(std::move(data_), p, size_);
  }

 private:
  std::shared_ptr<uint8_t> data_;
  size_t size_;
};

}  // namespace pw
