// Conversions between 16-bit floats and wider ones, which LLVM calls on CPUs without such
// instructions (compiler-rt's names and ABI). Linked into every shared object, so that it needs
// no compiler-rt and no libgcc. Rounding is to nearest, ties to even, as IEEE 754 has it.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

static u32 bits_of_float(float x) { return __builtin_bit_cast(u32, x); }
static float float_of_bits(u32 x) { return __builtin_bit_cast(float, x); }

// A double narrowed to a float rounding to odd: a second rounding to fewer bits is then exact.
static float narrow_to_odd(double x) {
  float nearest = (float)x;
  double back = (double)nearest;
  u32 bits = bits_of_float(nearest);
  if (back == x || x != x || (bits & 0x7fffffffu) == 0x7f800000u)
    return nearest;
  if (bits & 1u)
    return nearest;
  // the truncated neighbour is the odd one of the two floats around x
  int away = (x > 0) == (back > x);
  return float_of_bits(away ? bits - 1u : bits + 1u);
}

static u16 bf16_bits(float x) {
  u32 bits = bits_of_float(x);
  if (x != x)
    return (u16)((bits >> 16) | 0x40u);
  return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static u16 half_bits(float x) {
  u32 bits = bits_of_float(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return (u16)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) // rounds to 65536 or more
    return (u16)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // subnormal in half: let the addition round
    u32 rounded = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
    return (u16)(sign | rounded);
  }
  magnitude += 0xc8000fffu + ((magnitude >> 13) & 1u); // rebias the exponent, round
  return (u16)(sign | (magnitude >> 13));
}

static float half_value(u16 half) {
  u32 sign = (u32)(half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u)
    return float_of_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x400u)
    return float_of_bits(sign | ((rest << 13) + 0x38000000u));
  float magnitude = (float)rest * 0x1p-24f;
  return float_of_bits(sign | bits_of_float(magnitude));
}

#define HIDDEN __attribute__((visibility("hidden")))

// 16-bit values travel as the vector registers' low bits, which is what these types mean.
#if defined(__x86_64__) || defined(__aarch64__)
HIDDEN __bf16 __truncsfbf2(float x) { return __builtin_bit_cast(__bf16, bf16_bits(x)); }
HIDDEN __bf16 __truncdfbf2(double x) {
  return __builtin_bit_cast(__bf16, bf16_bits(narrow_to_odd(x)));
}
HIDDEN _Float16 __truncsfhf2(float x) { return __builtin_bit_cast(_Float16, half_bits(x)); }
HIDDEN _Float16 __truncdfhf2(double x) {
  return __builtin_bit_cast(_Float16, half_bits(narrow_to_odd(x)));
}
HIDDEN float __extendhfsf2(_Float16 x) { return half_value(__builtin_bit_cast(u16, x)); }
#endif
