"""Pairs of answers, each judged both ways round."""

import pytest

from gmts.rewards.math.judge import judge_math
from gmts.rewards.verdict import RewardError

SAME = [
    ("even 710", r"\text{Even 710}"),
    (r"\frac{-3}{5}", r"-\frac35"),
    (r"0.6", r"\frac35"),
    (r"137 \frac{1}{2}", r"137.5"),
    (r"137 1/2", r"137.5"),
    (r"1{,}000", r"1000"),
    (r"10,\!080", r"10080"),
    (r"10 080", r"10080"),
    (r"\$36", r"36"),
    (r"36 \text{ dollars}", r"\$36"),
    (r"$36", r"\$36"),
    (r"5.4", r"5.4 \text{ cents}"),
    (r"3.5\times 10^4", r"35000"),
    (r"-3./2", r"-1.5"),
    (r"90", r"90^\circ"),
    (r"90^\circ", r"\frac{\pi}{2}"),
    (r"90 degrees", r"90^\circ"),
    (r"0.08", r"8 \%"),
    (r"8", r"8\%"),
    (r"15 cm^2", r"15\mbox{ cm}^2"),
    (r"15", r"15\mbox{ cm}^2"),
    (r"864 \text{ square inches}", r"864 \mbox{ inches}^2"),
    (r"x\in[-2,7]", r"[-2,7]"),
    (r"-2\le x\le 7", r"x \in [-2,7]"),
    (r"x>3", r"(3,\infty)"),
    (r"(3,\infty)", r"3<x"),
    (r"[2,\infty)", r"$k \geqslant 2$"),
    (r"x\neq 3", r"(-\infty,3)\cup(3,\infty)"),
    (r"x<2 \text{ or } x>3", r"(-\infty,2)\cup(3,\infty)"),
    (r"0<x<1", r"(0,1)"),
    (r"\mathbb{R}\setminus\{9\}", r"(-\infty,9)\cup(9,\infty)"),
    (r"\{5,3,7\}", r"3, 5, 7"),
    (r"x = 3, 5, 7", r"3,5,7"),
    (r"x=1\pm\sqrt{19}", r"1 \pm \sqrt{19}"),
    (r"-2021, 2021", r"\pm 2021"),
    (r"\{1-\sqrt5,1+\sqrt5,-2\}", r"\{1\pm\sqrt{5},-2\}"),
    (r"x=1 \text{ or } x=-2", r"1,-2"),
    (r"1 \text{ and } -2", r"1,-2"),
    (r"(1,8,19),(4,5,7),(2,7,13)", r"$(1,8,19), (2,7,13), (4,5,7)$"),
    (r"x=5", r"5"),
    (r"5", r"x=5"),
    (r"x = 5", r"x=5"),
    (r"y-2x=3", r"y = 2x + 3"),
    (r"2x+3", r"y=2x+3"),
    (r"-5x+7y-11z=4", r"5x - 7y + 11z + 4 = 0"),
    (r"f(t)=2t", r"$f(x)=2 x$"),
    (r"g(x)=1, f(n)=n", r"f(n)=n, g(x)=1"),
    (r"f(n)=n \text{ and } g(n)=1", r"$f(n)=n$, $g(n)=1$"),
    (r"2516_{8}", r"2516_8"),
    (r"1358", r"2516_8"),
    (r"2516_{\text{eight}}", r"2516_8"),
    (r"12:00 \text{ p.m.}", r"12:00"),
    (r"\begin{bmatrix}-2\\-14\\-7\end{bmatrix}", r"\begin{pmatrix} -2 \\ -14 \\ -7 \end{pmatrix}"),
    (r"\begin{pmatrix}-2&-14&-7\end{pmatrix}^T", r"\begin{pmatrix} -2 \\ -14 \\ -7 \end{pmatrix}"),
    (
        r"\frac15\begin{pmatrix} 1 \\ -18 \end{pmatrix}",
        r"\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix}",
    ),
    (r"(C)", r"\text{(C)}"),
    (r"\text{C}", r"\text{(C)}"),
    (r"evelyn", r"\text{Evelyn}"),
    (r"\text{no solution}", r"No solution"),
    (r"\sqrt{2}/2", r"\frac{1}{\sqrt{2}}"),
    (r"(2+\sqrt2,1+\sqrt2)", r"$\quad(2+\sqrt{2}, 1+\sqrt{2})$"),
    (r"27", r"27.0"),
    (r"25", r"025"),
    (r"x^2 - 1", r"(x-1)(x+1)"),
    (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}"),
    (r"\frac{3\pi}{4}", r"0.75\pi"),
    (r"3/4", r"\frac{3}{4}"),
    (r".5", r"0.5"),
    (r"\text{6 hours}", r"6"),
    (r"6 hours", r"6"),
    (r"A=\frac12\cdot 6=3", r"3"),
    (r"\pi \approx 3.14", r"\pi"),
    (r"[\,0,1\,)", r"0\le x<1"),
    (r"2 \cdot 3", r"6"),
    (r"1:2", r"2:4"),
    (r"3:2", r"\frac32"),
    (r"(7,4)", r"7,4"),
    (r"\left(-\infty, 0\right) \cup \{1\}", r"$(-\infty, 0) \cup\{1\}$."),
    (r"SRMC = MR", r"MR=SRMC"),
    (r"e^{2\pi i}", r"1"),
    (r"1e-5", r"10^{-5}"),
    (r"\boxed{5}", r"5"),
    (r"5\text{ km/h}", r"5\mathrm{~km}/\mathrm{h}"),
    (r"11,111,111,100", r"11,\! 111,\! 111,\! 100"),
    (r"11\,111\,111\,100", r"11,\! 111,\! 111,\! 100"),
    (r"1234", r"1,234"),
    (r"k = n+1", r"n+1"),
    (r"30^{\circ}, 60^{\circ}", r"\frac{\pi}{6},\frac{\pi}{3}"),
    (r"(45^{\circ}, 60^{\circ})", r"(\frac{\pi}{4},\frac{\pi}{3})"),
    (r"0.1\overline{6}", r"\frac16"),
    (r"0.\bar{3}", r"\frac13"),
    (r"-2<x<2", r"(-2,2)"),
    (r"\{x | x > 2\}", r"(2,\infty)"),
    (r"\{x \in \mathbb{R} : x > 2\}", r"(2,\infty)"),
    (r"\emptyset", r"\varnothing"),
    (r"x+y=2", r"2=x+y"),
    (r"p \log p", r"p\ln p"),
    (r"18.90 dollars", r"\$18.90"),
    (r"\text{East}", r"east"),
    (r"3\sqrt{13}", r"\sqrt{117}"),
    (r"n+1<x", r"x>n+1"),
]

DIFFERENT = [
    (r"0.333", r"\frac13"),
    (r"0.3333", r"\frac13"),
    (r"\approx 0.33", r"\frac13"),
    (r"1.732", r"\sqrt3"),
    (r"15\text{ m}", r"15\text{ cm}"),
    (r"15\text{ cm}^3", r"15\mbox{ cm}^2"),
    (r"\$5", r"5\text{ cents}"),
    (r"80^\circ", r"90^\circ"),
    (r"90%", r"90^\circ"),
    (r"0.625%", r"62.5%"),
    (r"(2,1)", r"(1,2)"),
    (r"[1,2]", r"(1,2)"),
    (r"(1,2]", r"[1,2)"),
    (r"1,2,3", r"1,2"),
    (r"1,2,2", r"1,2"),
    (r"\{1,2\}", r"(1,2)"),
    (r"y=5", r"x=5"),
    (r"x=-5", r"x=5"),
    (r"x>3", r"x\ge 3"),
    (r"x<3", r"x>3"),
    (r"x>3", r"y>3"),
    (r"2x+1", r"2x"),
    (r"y=2x-3", r"y=2x+3"),
    (r"g(x)=2x", r"f(x)=2x"),
    (r"2516", r"2516_8"),
    (r"2516_9", r"2516_8"),
    (r"1:00", r"12:00"),
    (r"12:00 am", r"12:00 pm"),
    (r"B", r"\text{(C)}"),
    (r"west", r"east"),
    (r"seat", r"east"),
    (r"odd", r"even"),
    (r"5i+6", r"6-5i"),
    (r"-6+5i", r"6-5i"),
    (r"10^{100}", r"10^{101}"),
    (r"9^{9^{9}}", r"5"),
    (r"3+2\sqrt2", r"3 \pm 2\sqrt2"),
    (r"n=2,3", r"n=1,2"),
    (r"(1,1),(2,3)", r"(1,1),(3,2)"),
    (r"x", r"|x|"),
    (r"x", r"\sqrt{x^2}"),
    (r"5 or 6", r"5"),
    (r"5, 6", r"5"),
    (r"500,58", r"58,500"),
    (r"x^2+1", r"x^2-1"),
    (r"a", r"A"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"),
    (r"(3,2)", r"(-3,2)"),
    (r"0", r"I(0)e^{t}"),
    (r"\frac{M}{t}=5", r"\frac{dM}{dt}=5"),
    (r"2.71828182845905", r"e"),
    (r"1.4142135623730951", r"\sqrt2"),
    (r"x=2,y=3", r"x=3,y=2"),
    (r"3,2", r"x=2,y=3"),
    (r"2", r"x^2"),
    (r"1", r"x"),
    (r"f(x)=2", r"f(x)=2x"),
    (r"(0,9)\cup(9,36]", r"(0,9)\cup(9,36)"),
    (r"(0,36)", r"(0,9)\cup(9,36)"),
    (r"I do not know", r"5"),
    (r"the number 5 is it", r"5"),
    (r"5 apples or 6", r"5"),
    (r"y=0", r"5x-7y=0"),
    (r"5x-7y", r"5x-7y=0"),
    (r"0=0", r"5x-7y=0"),
    (r"1=1", r"x=x"),
    (r"\infty", r"-\infty"),
    (r"1/0", r"5"),
    (r"\frac{5}{0}", r"5"),
    (r"15 cm", r"15 mm"),
    (r"3x=6y", r"x=2y+1"),
    (r"0.1", r"0.10001"),
]


def judged(answer, gold, **meta):
    return judge_math(rf"So $\boxed{{{answer}}}$.", gold, meta, require_box=False)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_answers_are_right_both_ways_round(one, other):
    assert judged(one, other).correct
    assert judged(other, one).correct


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_answers_are_wrong_both_ways_round(one, other):
    for answer, gold in ((one, other), (other, one)):
        verdict = judged(answer, gold)
        assert (verdict.correct, verdict.score) == (False, 0.0)
        assert verdict.extracted == answer


@pytest.mark.parametrize(
    ("answer", "gold", "rel_tol", "correct"),
    [
        ("4.47e33", "4.5e33", 0.01, True),
        ("4.4e33", "4.5e33", 0.01, False),
        ("4.455e33", "4.5e33", 0.01, True),  # on the edge, as decimals
        (r"\frac{1}{3}", "0.333", 0.01, True),
        ("-0.333", "0.333", 0.01, False),
        ("3.14", r"\pi", 0.01, True),
        (r"2.5\text{ cm}", r"2.51", 0.01, True),
        ("0.001", "0", 0.01, False),
        ("(1.001, 2)", "(1, 2)", 0.01, True),
        (r"1.01 x", "x", 0.05, False),
    ],
)
def test_a_tolerance_is_the_benchmarks_and_a_share_of_the_gold_number(
    answer, gold, rel_tol, correct
):
    assert judged(answer, gold, rel_tol=rel_tol).correct is correct
    assert not judged(answer, gold).correct


def test_a_tolerance_that_is_none_is_refused():
    for wrong in ("0.1", -0.1, 1.0, True, float("nan")):
        with pytest.raises(RewardError, match="rel_tol must be a number in"):
            judged("1", "1", rel_tol=wrong)


@pytest.mark.parametrize("gold", ["", "  ", "$$", r"\boxed{}"])
def test_a_missing_gold_is_an_error_and_never_a_reward(gold):
    with pytest.raises(RewardError, match="ground truth must be non-empty"):
        judged("", gold)


@pytest.mark.parametrize(
    "hostile",
    [
        "9^{9^{9}}",
        "(10^7)!",
        r"10000000!",
        "{" * 3000 + "1" + "}" * 3000,
        "(" * 900 + "1" + ")" * 900,
        "1+" * 900 + "1",
        "7" * 10_000,
        "1e999999999",
        "x^{10^{9}}",
        r"\binom{10^9}{5\cdot 10^8}",
        r"\sqrt{" * 200 + "2" + "}" * 200,
        r"\sum_{k=1}^{10^{9}} k^{k}",
        r"\begin{pmatrix}" * 300,
        ",".join("12345"),
        r"\pm" * 500,
    ],
)
def test_what_would_not_return_is_refused_before_it_is_evaluated(hostile):
    verdict = judged(hostile, "7")
    assert not verdict.correct
    assert verdict.seconds < 5


def test_answers_are_never_evaluated_as_code(tmp_path):
    marker = tmp_path / "marker"
    for code in (
        rf"__import__('pathlib').Path('{marker}').touch()",
        rf"\pi*__import__('os').system('touch {marker}')",
        rf"open('{marker}','w')",
    ):
        assert not judged(code, r"\pi").correct
    assert not marker.exists()
    assert judged(r"\pi", r"\pi").correct
