"""The training sets by the values of data.set."""

from gmts.data.sets.choice import CSQA
from gmts.data.sets.code import KODCODE, KODCODE_LIGHT_RL
from gmts.data.sets.dataset import DataSet
from gmts.data.sets.math import DAPO17K, MATH12K

SETS: dict[str, DataSet] = {
    "math12k": MATH12K,
    "dapo17k": DAPO17K,
    "kodcode": KODCODE,
    "kodcode_light_rl": KODCODE_LIGHT_RL,
    "csqa": CSQA,
}
