"""Pictures of the robots, on a screen or without one, with the forbidden ground in red.

A speed limit is no place: the ground around the robot is red while it is too fast. The red exists only in the picture:
the model that is simulated has no wall.
"""

import atexit
import ctypes
import os
import sys
from typing import Any

import numpy as np

from tacit.envs.robot_tasks import Task
from tacit.errors import UserError

_RED = np.array([0.9, 0.1, 0.1, 0.4], np.float32)
_REACH = 20.0
_TILES = 8.0
"""Metres by which the floor can be moved without being seen: a whole number of tiles in all models."""
_INSTALL = "install one (Debian/Ubuntu: apt install libegl1 libgl1), or set MUJOCO_GL to egl, osmesa or glfw."


def has_display() -> bool:
    """Can a window be opened?"""
    if not sys.platform.startswith("linux"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def choose_gl_backend() -> None:
    """On Linux without a display, point MUJOCO_GL at an offscreen OpenGL that works; a value set by the user is kept.

    MuJoCo and Gymnasium default to a window system and then fail with a message that helps nobody. PyOpenGL can be
    bound to one platform per process, so the choice is made by asking the libraries, not by trying one after the other.
    """
    if os.environ.get("MUJOCO_GL") or has_display():
        return
    if _egl_devices() > 0:
        os.environ["MUJOCO_GL"] = "egl"
    elif any(_loads(name) for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")):
        os.environ["MUJOCO_GL"] = "osmesa"
    else:
        raise UserError(f"rendering without a display needs an offscreen OpenGL library and none was found: {_INSTALL}")


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _egl_devices() -> int:
    """How many devices EGL can render on; a software rasteriser counts. 0 without EGL or without a driver for it."""
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return 0
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    if not address:
        return 0
    prototype = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
    count = ctypes.c_int(0)
    return count.value if prototype(address)(0, None, ctypes.byref(count)) else 0


def _gl_context(width: int, height: int) -> Any:
    """An OpenGL context to draw into memory with."""
    choose_gl_backend()
    name = os.environ.get("MUJOCO_GL")
    if name == "egl":
        from mujoco.egl import GLContext
    elif name == "osmesa":
        from mujoco.osmesa import GLContext
    else:
        from mujoco import GLContext
    return GLContext(width, height)


class RobotRenderer:
    """Pictures of one model: a camera that follows the robot, the forbidden ground in red.

    Several may be open in one process, which Gymnasium's renderer does not survive with EGL.
    """

    def __init__(self, task: Task, model: Any, data: Any, width: int, height: int) -> None:
        import mujoco

        self.task, self.model, self.data = task, model, data
        self._mujoco = mujoco
        self._rect = mujoco.MjrRect(0, 0, width, height)
        # The frame buffer is allocated with the size that the model declares.
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, height)
        if "floor" not in task.camera:  # and no lamp above it, either
            model.vis.headlight.ambient[:] = 0.6
        try:
            self._gl = _gl_context(width, height)
            self._gl.make_current()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        except (ImportError, AttributeError, RuntimeError, mujoco.FatalError) as error:
            name = os.environ.get("MUJOCO_GL") or "the window system"
            raise UserError(f"OpenGL through {name} fails here: {_INSTALL} ({error})") from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene = mujoco.MjvScene(model, maxgeom=200)
        # Without a graphics card shadows take three quarters of the time of a picture.
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._options, self._nothing = mujoco.MjvOption(), mujoco.MjvPerturb()
        self._camera = mujoco.MjvCamera()
        self._camera.distance, self._camera.elevation = task.camera["distance"], task.camera["elevation"]
        self._camera.azimuth = 90.0
        # Python may clean up after OpenGL's own end of the process, which complains loudly.
        atexit.register(self.close)

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """A picture of `data` as it is now: (height, width, 3) uint8, or (height, width) float32 for "depth_array"."""
        mujoco, qpos = self._mujoco, self.data.qpos
        if self._context is None:
            raise UserError("this environment is closed: it cannot be rendered any more.")
        self._gl.make_current()
        y = qpos[1] if "y_position" in self.task.position_names else 0.0
        # The whole circle of the point robot fits into the picture: its camera stands still.
        self._camera.lookat = (0.0, 0.0, 0.0) if self.task.kinematics else (qpos[0], y, self.task.camera["height"])
        mujoco.mjv_updateScene(
            *(self.model, self.data, self._options, self._nothing, self._camera),
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        self._move_floor()
        self._add_forbidden()
        mujoco.mjr_render(self._rect, self._scene, self._context)
        # OpenGL counts rows from below.
        if mode == "depth_array":
            depth = np.empty((self._rect.height, self._rect.width), np.float32)
            mujoco.mjr_readPixels(None, depth, self._rect, self._context)
            return depth[::-1].copy()
        picture = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, self._rect, self._context)
        return picture[::-1].copy()

    def _move_floor(self) -> None:
        """Robots run farther than the 40 m to which the floor is drawn: it comes along, a few tiles at a time."""
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.type == self._mujoco.mjtGeom.mjGEOM_PLANE:
                geom.pos[:2] += _TILES * np.round(self._camera.lookat[:2] / _TILES)

    def _add_forbidden(self) -> None:
        """A thin box over the states that break the constraint: on the floor, or behind a robot that has no floor."""
        task, camera = self.task, self.task.camera
        if task.constraint.feature == "x_position":
            bound = task.constraint.value
            x = bound + _REACH if task.constraint.relation.startswith(">") else bound - _REACH
        elif task.costs(task.observe(np.concatenate([self.data.qpos, self.data.qvel])[None]))[0]:
            x = self.data.qpos[0]
        else:
            return
        if "floor" in camera:
            size, position = (_REACH, 2 * _REACH, 0.005), (x, 0.0, camera["floor"] + 0.006)
        else:
            size, position = (_REACH, 0.005, _REACH), (x, 0.3, 0.0)
        box = self._mujoco.mjtGeom.mjGEOM_BOX
        geom = self._scene.geoms[self._scene.ngeom]
        self._mujoco.mjv_initGeom(geom, box, np.array(size), np.array(position), np.eye(3).ravel(), _RED)
        self._scene.ngeom += 1

    def close(self) -> None:
        """Give the graphics memory back."""
        atexit.unregister(self.close)
        if self._context is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
            self._context = None
