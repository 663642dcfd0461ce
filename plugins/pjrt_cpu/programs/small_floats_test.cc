// Tests with handmade bytecode: the result for newer MLIR's output must equal, byte for byte, older MLIR's output.
#include "plugins/pjrt_cpu/programs/small_floats.h"

#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::pjrt_cpu {
namespace {

using ::testing::Optional;

std::string Number(uint64_t value) {
  if (value < 1 << 7) return {static_cast<char>(value << 1 | 1)};
  return {static_cast<char>(value << 2 | 2), static_cast<char>(value >> 6)};
}

std::string Numbers(const std::vector<uint64_t>& values) {
  std::string bytes;
  for (uint64_t value : values) bytes += Number(value);
  return bytes;
}

// An attribute or type in the table: as a number or as text.
struct Entry {
  std::string bytes;
  bool numbered;
};

Entry Numbered(uint64_t number) { return {Number(number), true}; }
Entry Text(const std::string& text) { return {text + '\0', false}; }

struct Group {
  uint64_t dialect;
  std::vector<Entry> entries;
};

constexpr uint64_t kVhlo = 0, kBuiltin = 1;  // dialects in Program

struct Program {
  std::vector<Group> attributes, types;
  std::string version = Number(6);
  uint64_t alignment = 64;  // of the last section

  std::string Bytes() const {
    std::string out = "ML\xefR" + version + "StableHLO_v1.13.7" + '\0';
    Add(1, Numbers({2, 1 << 1 | 1}) + '\x07' + Numbers({1, 42, 2 << 1}), out);
    std::string sizes = Numbers({Count(attributes), Count(types)}), entries;
    for (const auto* groups : {&attributes, &types}) {
      for (const Group& group : *groups) AddGroup(group, sizes, entries);
    }
    Add(2, entries, out);
    Add(3, sizes, out);
    Add(4, "the operations", out);
    Add(0, Number(3) + Numbers({8, 5, 4}) + std::string("foo\0vhlo\0builtin\0", 17), out);
    out += '\x85' + Numbers({9, alignment});
    while (out.size() % alignment != 0) out += '\xcb';
    return out + "resources";
  }

 private:
  static uint64_t Count(const std::vector<Group>& groups) {
    uint64_t count = 0;
    for (const Group& group : groups) count += group.entries.size();
    return count;
  }
  static void AddGroup(const Group& group, std::string& sizes, std::string& entries) {
    sizes += Numbers({group.dialect, group.entries.size()});
    for (const Entry& entry : group.entries) {
      sizes += Number(entry.bytes.size() << 1 | entry.numbered);
      entries += entry.bytes;
    }
  }
  static void Add(int id, const std::string& data, std::string& out) {
    out += static_cast<char>(id) + Number(data.size()) + data;
  }
};

const Entry kF32 = Numbered(5), kTensor{Numbers({13, 1, 8, 0}), true};

Program WithTypes(std::vector<Entry> types) { return {{{kBuiltin, {kF32}}}, {{kBuiltin, std::move(types)}}}; }

Program Mixed(const Entry& small) {
  return {{{kVhlo, {Text("#vhlo.a"), Numbered(24)}}, {kBuiltin, {Numbered(24), Text("@a")}}},
          {{kVhlo, {Numbered(24), kTensor}}, {kBuiltin, {kF32, small, kTensor, small}}, {kVhlo, {Numbered(25)}}}};
}

TEST(SmallFloats, BecomeText) {
  const std::vector<std::string> names = {"tf32",          "f8E5M2", "f8E4M3",   "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ",
                                          "f8E4M3B11FNUZ", "f8E3M4", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN",   "f8E8M0FNU"};
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_THAT(WithSmallFloatsAsText(WithTypes({kF32, Numbered(21 + i), kTensor}).Bytes()),
                Optional(WithTypes({kF32, Text(names[i]), kTensor}).Bytes()));
  }
}

TEST(SmallFloats, OnlyTypesOfTheBuiltinDialectAreMeant) {
  EXPECT_THAT(WithSmallFloatsAsText(Mixed(Numbered(24)).Bytes()), Optional(Mixed(Text("f8E4M3FN")).Bytes()));
  EXPECT_EQ(WithSmallFloatsAsText(Mixed(kF32).Bytes()), std::nullopt);
}

TEST(SmallFloats, SizesMayTakeMoreBytesThanBefore) {
  EXPECT_THAT(WithSmallFloatsAsText(WithTypes(std::vector<Entry>(120, Numbered(22))).Bytes()),
              Optional(WithTypes(std::vector<Entry>(120, Text("f8E5M2"))).Bytes()));
}

TEST(SmallFloats, AlignedSectionsStayAligned) {
  for (uint64_t alignment : {1, 2, 8, 32, 128, 1024}) {
    Program before = Mixed(Numbered(29)), after = Mixed(Text("f4E2M1FN"));
    before.alignment = after.alignment = alignment;
    EXPECT_THAT(WithSmallFloatsAsText(before.Bytes()), Optional(after.Bytes()));
  }
}

TEST(SmallFloats, WhatHasNoneIsLeftAlone) {
  EXPECT_EQ(WithSmallFloatsAsText(""), std::nullopt);
  EXPECT_EQ(WithSmallFloatsAsText("module @m { func.func @main() { return } }"), std::nullopt);
  EXPECT_EQ(WithSmallFloatsAsText(WithTypes({}).Bytes()), std::nullopt);
  EXPECT_EQ(WithSmallFloatsAsText(WithTypes({kF32, kTensor, Numbered(20), Numbered(33), Text("f8E4M3FN")}).Bytes()),
            std::nullopt);
  EXPECT_EQ(WithSmallFloatsAsText(WithTypes({{Numbers({24, 1}), true}, {"", true}}).Bytes()), std::nullopt) << "another encoding";
  EXPECT_EQ(WithSmallFloatsAsText(*WithSmallFloatsAsText(Mixed(Numbered(24)).Bytes())), std::nullopt);
}

TEST(SmallFloats, LayoutsOfOtherVersionsAreLeftAlone) {
  for (const std::string& version : {Number(0), Number(7), std::string(9, '\0'), "\x80" + std::string(7, '\xff')}) {
    Program program = Mixed(Numbered(24));
    program.version = version;
    EXPECT_EQ(WithSmallFloatsAsText(program.Bytes()), std::nullopt);
  }
}

TEST(SmallFloats, WhatIsMalformedIsLeftAlone) {
  const std::string good = Mixed(Numbered(24)).Bytes();
  EXPECT_EQ(WithSmallFloatsAsText(good + good.substr(good.find("\x04\x1dthe"), 16)), std::nullopt) << "a section twice";
  EXPECT_EQ(WithSmallFloatsAsText(good + '\x09' + Number(0)), std::nullopt) << "an unknown section";
  EXPECT_EQ(WithSmallFloatsAsText(good + '\x86' + Numbers({0, 0})), std::nullopt) << "an alignment of 0";
  EXPECT_EQ(WithSmallFloatsAsText(good + '\x86' + Numbers({0, 3})), std::nullopt) << "an alignment of 3";
  EXPECT_EQ(WithSmallFloatsAsText(good + '\x86' + Number(0) + '\0' + std::string(7, '\0') + '\x80'), std::nullopt);
}

// Runs on memory that ends with the input, so that a sanitizer detects reads past its end.
std::optional<std::string> OfExactly(std::string_view bytes) {
  const std::unique_ptr<char[]> copy(new char[bytes.size()]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return WithSmallFloatsAsText({copy.get(), bytes.size()});
}

TEST(SmallFloats, SurviveEveryTruncation) {
  const std::string good = Mixed(Numbered(24)).Bytes();
  const size_t needed = good.find("builtin") + 8;  // end of the last section that types need
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(OfExactly(std::string_view(good).substr(0, size)).has_value(), size == needed) << size;
  }
}

TEST(SmallFloats, SurviveAnyBytes) {
  std::mt19937 random(1);
  const std::string good = Mixed(Numbered(24)).Bytes();
  for (int round = 0; round < 200'000; ++round) {
    std::string bytes = good;
    for (int flips = 1 + random() % 4; flips > 0; --flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::optional<std::string> result = OfExactly(bytes);
    if (result.has_value()) EXPECT_LT(result->size(), 10 * bytes.size());
  }
}

}  // namespace
}  // namespace pw::pjrt_cpu
