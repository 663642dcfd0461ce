#include "plugins/pjrt_cpu/programs/small_floats.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace pw::pjrt_cpu {
namespace {

constexpr std::string_view kMagic = "ML\xefR";
constexpr uint64_t kFirstVersion = 1, kLastVersion = 6;  // of the known format; version 0 had no dialect versions

// Section ids.
constexpr uint8_t kStrings = 0, kDialects = 1, kEntries = 2, kSizes = 3, kDialectVersion = 7, kSections = 9;
constexpr uint8_t kAligned = 0x80;  // a flag in the id's byte
constexpr char kPadding = '\xcb';

// The types of the dialect `builtin` that newer MLIR encodes as numbers, starting at kFirstNumber.
constexpr uint64_t kFirstNumber = 21;
constexpr std::string_view kNames[] = {"tf32",          "f8E5M2", "f8E4M3",   "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ",
                                       "f8E4M3B11FNUZ", "f8E3M4", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN",   "f8E8M0FNU"};

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

// Reader: reads bytes from the front of a text. Past the end, ok() becomes false for good, and reads return 0 or nothing.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool ok() const { return ok_; }
  bool done() const { return at_ == text_.size(); }
  size_t at() const { return at_; }

  std::string_view Take(uint64_t size) {
    if (size > text_.size() - at_) ok_ = false;
    if (!ok_) return {};
    at_ += size;
    return text_.substr(at_ - size, size);
  }

  uint8_t Byte() {
    const std::string_view byte = Take(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }

  // A zero byte means that eight bytes follow. In any other byte, the zeros below the lowest set bit give the number of further bytes; the
  // value begins above that bit.
  uint64_t Number() {
    const uint8_t first = Byte();
    if (first == 0) return LittleEndian(Take(8));
    const int more = __builtin_ctz(first);
    const uint64_t rest = LittleEndian(Take(more));
    return ok_ ? (rest << 8 | first) >> (more + 1) : 0;
  }

 private:
  const std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
};

// Appends a number below 2^56, as sizes in memory are.
void AppendNumber(uint64_t value, std::string& out) {
  int more = 0;
  while (value >> (7 * (more + 1)) != 0) ++more;
  value = (value << 1 | 1) << more;
  for (int i = 0; i <= more; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

size_t PaddingAt(size_t at, uint64_t alignment) { return -at & (alignment - 1); }

struct Section {
  uint8_t id;
  uint64_t alignment;  // 0: none
  std::string_view data;
};

// Reads a section of the top level, where alignment counts from the beginning of the input.
std::optional<Section> ReadSection(Reader& in) {
  const uint8_t first = in.Byte();
  Section section{static_cast<uint8_t>(first & ~kAligned), 0, {}};
  const uint64_t size = in.Number();
  if (first & kAligned) {
    section.alignment = in.Number();
    if (section.alignment == 0 || (section.alignment & (section.alignment - 1)) != 0) return std::nullopt;
    in.Take(PaddingAt(in.at(), section.alignment));
  }
  section.data = in.Take(size);
  if (!in.ok() || section.id >= kSections) return std::nullopt;
  return section;
}

void AppendSection(const Section& section, std::string& out) {
  out.push_back(static_cast<char>(section.id | (section.alignment != 0 ? kAligned : 0)));
  AppendNumber(section.data.size(), out);
  if (section.alignment != 0) {
    AppendNumber(section.alignment, out);
    out.append(PaddingAt(out.size(), section.alignment), kPadding);
  }
  out.append(section.data);
}

struct Module {
  std::string_view header;
  std::vector<Section> sections;  // in order, each id at most once

  std::string_view Data(uint8_t id) const {
    for (const Section& section : sections) {
      if (section.id == id) return section.data;
    }
    return {};
  }
};

std::optional<Module> ReadModule(std::string_view text) {
  if (text.substr(0, kMagic.size()) != kMagic) return std::nullopt;
  Reader in(text);
  in.Take(kMagic.size());
  const uint64_t version = in.Number();
  if (version < kFirstVersion || version > kLastVersion) return std::nullopt;
  const size_t producer_end = text.find('\0', in.at());
  if (producer_end == std::string_view::npos) return std::nullopt;
  in.Take(producer_end + 1 - in.at());

  Module module{text.substr(0, in.at()), {}};
  unsigned seen = 0;
  while (!in.done()) {
    const std::optional<Section> section = ReadSection(in);
    if (!section.has_value() || (seen >> section->id & 1) != 0) return std::nullopt;
    seen |= 1u << section->id;
    module.sections.push_back(*section);
  }
  return module;
}

// Returns the index of the string "builtin" in the table, which begins with the sizes, in reverse order of the strings.
std::optional<uint64_t> BuiltinString(std::string_view strings) {
  constexpr std::string_view kBuiltin("builtin\0", 8);
  Reader in(strings);
  const uint64_t count = in.Number();
  size_t end = strings.size();
  for (uint64_t left = count; left > 0; --left) {
    const uint64_t size = in.Number();
    if (!in.ok() || size > end) return std::nullopt;
    end -= size;
    if (strings.substr(end, size) == kBuiltin) return left - 1;
  }
  return std::nullopt;
}

std::optional<uint64_t> BuiltinDialect(const Module& module) {
  const std::optional<uint64_t> name = BuiltinString(module.Data(kStrings));
  if (!name.has_value()) return std::nullopt;
  Reader in(module.Data(kDialects));
  const uint64_t count = in.Number();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    const uint64_t name_and_versioned = in.Number();
    if (name_and_versioned >> 1 == *name && in.ok()) return i;
    if ((name_and_versioned & 1) == 0) continue;
    if (in.Byte() != kDialectVersion) return std::nullopt;
    in.Take(in.Number());
  }
  return std::nullopt;
}

// A range of a section and its replacement.
struct Change {
  size_t begin, end;
  std::string text;
};

struct Changes {
  std::vector<Change> entries, sizes;
};

std::optional<std::string_view> NameOf(std::string_view entry) {
  Reader in(entry);
  const uint64_t number = in.Number();
  if (!in.ok() || !in.done() || number < kFirstNumber || number - kFirstNumber >= std::size(kNames)) return std::nullopt;
  return kNames[number - kFirstNumber];
}

// The table of attributes and types: sizes in one section, entries in another.
class Table {
 public:
  Table(std::string_view entries, std::string_view sizes, uint64_t builtin)
      : entries_(entries), sizes_(sizes), builtin_(builtin) {}

  // Returns the changes; none if the table is malformed.
  Changes Find() {
    const uint64_t attributes = sizes_.Number(), types = sizes_.Number();
    const bool good = Read(attributes, /*are_types=*/false) && Read(types, /*are_types=*/true) && sizes_.done();
    return good ? std::move(changes_) : Changes();
  }

 private:
  // Reads groups of one dialect each.
  bool Read(uint64_t count, bool are_types) {
    while (count > 0 && sizes_.ok()) {
      const uint64_t dialect = sizes_.Number(), members = sizes_.Number();
      if (members > count) return false;
      count -= members;
      for (uint64_t i = 0; i < members && sizes_.ok(); ++i) ReadEntry(are_types && dialect == builtin_);
    }
    return sizes_.ok() && entries_.ok();
  }

  void ReadEntry(bool may_be_float) {
    const size_t size_at = sizes_.at(), entry_at = entries_.at();
    const uint64_t size_and_numbered = sizes_.Number();
    const std::string_view entry = entries_.Take(size_and_numbered >> 1);
    if (!may_be_float || (size_and_numbered & 1) == 0) return;
    const std::optional<std::string_view> name = NameOf(entry);
    if (!name.has_value()) return;
    Change text{entry_at, entries_.at(), std::string(*name) + '\0'}, size{size_at, sizes_.at(), ""};
    AppendNumber(text.text.size() << 1, size.text);
    changes_.entries.push_back(std::move(text));
    changes_.sizes.push_back(std::move(size));
  }

  Reader entries_, sizes_;
  const uint64_t builtin_;
  Changes changes_;
};

std::string Changed(std::string_view data, const std::vector<Change>& changes) {
  std::string result;
  size_t at = 0;
  for (const Change& change : changes) {
    result.append(data.substr(at, change.begin - at)).append(change.text);
    at = change.end;
  }
  return result.append(data.substr(at));
}

}  // namespace

std::optional<std::string> WithSmallFloatsAsText(std::string_view text) {
  std::optional<Module> module = ReadModule(text);
  if (!module.has_value()) return std::nullopt;
  const std::optional<uint64_t> builtin = BuiltinDialect(*module);
  if (!builtin.has_value()) return std::nullopt;
  const Changes changes = Table(module->Data(kEntries), module->Data(kSizes), *builtin).Find();
  if (changes.entries.empty()) return std::nullopt;

  const std::string entries = Changed(module->Data(kEntries), changes.entries);
  const std::string sizes = Changed(module->Data(kSizes), changes.sizes);
  std::string result(module->header);
  result.reserve(text.size() + entries.size() + sizes.size());
  for (Section& section : module->sections) {
    if (section.id == kEntries) section.data = entries;
    if (section.id == kSizes) section.data = sizes;
    AppendSection(section, result);
  }
  return result;
}

}  // namespace pw::pjrt_cpu
