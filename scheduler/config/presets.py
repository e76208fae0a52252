"""Configurations by a name: `trellis run --profile gpu`, `trellis config defaults --profile gpu`.

The chart's value `profile: gpu` renders the same plugins; a test of the chart compares them.
"""

from collections.abc import Mapping
from typing import Final

GPU: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  plugins:
    preScore:
      enabled:
      - {name: FragmentationAware}
    score:
      enabled:
      - {name: FragmentationAware, weight: 10}
  pluginConfig:
  - name: FragmentationAware
    args: {keepsOthersOff: true, history: gpu}
"""
# Name → text of the file; the empty text stands for the defaults.
PRESETS: Final[Mapping[str, str]] = {"default": "", "gpu": GPU}
