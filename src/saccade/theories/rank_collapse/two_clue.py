r"""The two-clue task (`LabelledSequences.two_clue`) in closed form. All of this is ours.

Clue A is right with probability p_1 under question 1, asked with probability $\rho$, clue B with
p_2 under question 2; $\bar p = \rho p_1 + (1-\rho) p_2$. With uniform attention only $\beta_0$, the
weight on the clue's sign, counts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad

__all__ = ["TwoClue"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TwoClue:
    first: float = 0.9
    second: float = 0.9
    share: float = 0.5

    @property
    def right(self) -> float:
        r"""$\bar p$, how often a clue taken at random is right when both agree."""
        return self.share * self.first + (1 - self.share) * self.second

    @property
    def slope(self) -> float:
        r"""$g_0 = |\sum_i p_i y_i \bar x_i| = |2\bar p - 1|/3$; v is the clue's sign, turned around
        if $\bar p < 1/2$.
        """
        return abs(2 * self.right - 1) / 3

    def uniform_loss(self, beta: float) -> float:
        r"""$\tilde L_1 = \frac12[1 + \bar p e^{-2\beta_0/3} + (1-\bar p) e^{2\beta_0/3}]$."""
        p, b = self.right, beta / 3
        return float((1 + p * np.exp(-2 * b) + (1 - p) * np.exp(2 * b)) / 2)

    def pull(self, beta: float) -> float:
        r"""$g(\beta_0) = -d\tilde L_1/d\beta_0$."""
        p, b = self.right, beta / 3
        return float((p * np.exp(-2 * b) - (1 - p) * np.exp(2 * b)) / 3)

    @property
    def beta_star(self) -> float:
        r"""$\beta_0^* = \frac34 \ln\frac{\bar p}{1-\bar p}$."""
        return 0.75 * np.log(self.right / (1 - self.right))

    @property
    def plateau(self) -> float:
        r"""$\frac12 + \sqrt{\bar p(1-\bar p)}$, the least loss with uniform attention."""
        return 0.5 + np.sqrt(self.right * (1 - self.right))

    @property
    def final_loss(self) -> float:
        r"""$2\rho\sqrt{p_1(1-p_1)} + 2(1-\rho)\sqrt{p_2(1-p_2)}$."""
        p, q = self.first, self.second
        return float(
            2 * self.share * np.sqrt(p * (1 - p)) + 2 * (1 - self.share) * np.sqrt(q * (1 - q))
        )

    def drive(self, beta: float) -> Array:
        r"""F at uniform attention: rows 1 and 2, with $f = \rho_q \beta_0 / 3\sqrt5$, $A = 2p_q -
        1$, $B = p_q e^{-2\beta_0/3} - (1-p_q) e^{2\beta_0/3}$: own clue $f(3A+B)/6$, other clue
        $f(B-3A)/6$, question $-fB/3$.
        """
        F, x = np.zeros((5, 5)), np.exp(-2 * beta / 3)
        for q, p, share in ((1, self.first, self.share), (2, self.second, 1 - self.share)):
            f, A, B = share * beta / (3 * np.sqrt(5)), 2 * p - 1, p * x - (1 - p) / x
            F[q, 2 + q], F[q, 5 - q], F[q, q] = f * (3 * A + B) / 6, f * (B - 3 * A) / 6, -f * B / 3
        return F

    def beta_at(self, loss: float) -> float:
        r"""$\beta_0$ on the way to the plateau at which $\tilde L_1$ has fallen to `loss`."""
        p, m = self.right, 2 * loss - 1
        return float(
            -1.5 * np.log((m + np.sign(p - 0.5) * np.sqrt(m**2 - 4 * p * (1 - p))) / (2 * p))
        )

    def escape_offset(self, loss: float) -> float:
        r"""How long after the blow-up time of stage I the loss falls through a level, up to
        $O(\epsilon)$. On the ray of three equal factors r, $\dot r = g(r^3) r^2$, so it is
        $\int_0^{r_1} (1/g(r^3) - 1/g_0) dr/r^2 - 1/(r_1 g_0)$, $\beta_0 = r_1^3$.
        """
        r1, g0 = np.cbrt(self.beta_at(loss)), self.pull(0.0)
        late = quad(
            lambda r: (1 / self.pull(r**3) - 1 / g0) / r**2, 0, r1, epsabs=1e-12, epsrel=1e-12
        )[0]
        return float(late - 1 / (r1 * g0))
