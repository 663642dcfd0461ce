// Translations: a cache of translated programs, so that each program is translated once. TranslatingCompiler uses it.
//
// A translation by a client's process serves that client alone, because others must not depend on it. A translation by the front
// end's own helper serves all. Above the limits of number or bytes, the least recently used entries are dropped. Strand-confined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/memory/bytes.h"

namespace pw::frontend {

class Translations {
 public:
  struct Limits {
    size_t programs = 1024;
    size_t bytes = size_t{64} << 20;  // of programs plus translations
  };
  // The owner of a translation that serves all clients. Other owners are clients, by wire id.
  static constexpr uint64_t kEverybody = 0;

  Translations() : Translations(Limits()) {}
  explicit Translations(Limits limits) : limits_(limits) {}

  // Finds a translation that serves this client. Compares the whole program, not just a hash.
  std::optional<Bytes> Find(uint64_t client, const std::string& version, const Bytes& program);
  void Add(uint64_t owner, const std::string& version, const Bytes& program, const Bytes& translation);
  // Drops a client's translations.
  void Forget(uint64_t owner);

  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint64_t owner;
    std::string version;
    Bytes program, translation;
  };
  using Entries = std::list<Entry>;  // most recently used first
  struct Key {
    uint64_t owner;
    std::string_view version, program;  // views into the entry
    bool operator==(const Key&) const = default;
    template <class H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.owner, key.version, key.program);
    }
  };
  static Key KeyOf(const Entry& entry) { return {entry.owner, entry.version, entry.program.view()}; }
  static size_t SizeOf(const Entry& entry) { return entry.program.size() + entry.translation.size(); }
  void Remove(Entries::iterator entry);

  const Limits limits_;
  Entries entries_;
  absl::flat_hash_map<Key, Entries::iterator> index_;
  size_t bytes_ = 0;
};

}  // namespace pw::frontend
