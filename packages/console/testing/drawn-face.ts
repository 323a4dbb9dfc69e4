// Faces that nobody has: drawn, with light and shade enough for the detector of the page. Pictures
// of people are neither committed nor shown in documents.

export interface FaceColours {
  readonly skin: string;
  readonly shade: string;
  readonly hair: string;
  readonly eyes: string;
  readonly shirt: string;
  readonly ground: string;
  /** Of the face, against its height. */
  readonly width: number;
}

export const DRAWN: Readonly<Record<string, FaceColours>> = {
  'Ada, drawn': {
    skin: '#e9bd9c',
    shade: '#b98464',
    hair: '#3a2417',
    eyes: '#4d3420',
    shirt: '#2f7d82',
    ground: '#b9c7cc',
    width: 0.76,
  },
  'Noor, drawn': {
    skin: '#b27c55',
    shade: '#7d5030',
    hair: '#17110d',
    eyes: '#1f140c',
    shirt: '#b9772a',
    ground: '#d8d2c4',
    width: 0.72,
  },
  'Ines, drawn': {
    skin: '#f2d0b8',
    shade: '#c99a7d',
    hair: '#a8642c',
    eyes: '#41617a',
    shirt: '#6a4c93',
    ground: '#c3cfbf',
    width: 0.8,
  },
};

/** Runs in a page. The picture, PNG, in base64. */
export function drawFace(colours: FaceColours): string {
  const { skin, shade, hair, eyes, shirt, ground, width } = colours;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 480;
  const c = canvas.getContext('2d')!;
  const ellipse = (x: number, y: number, rx: number, ry: number, fill: string | CanvasGradient, turn = 0) => {
    c.beginPath();
    c.ellipse(x, y, rx, ry, turn, 0, 2 * Math.PI);
    c.fillStyle = fill;
    c.fill();
  };
  const soft = (x: number, y: number, r: number, inner: string, outer: string) => {
    const gradient = c.createRadialGradient(x, y, 0, x, y, r);
    gradient.addColorStop(0, inner);
    gradient.addColorStop(1, outer);
    return gradient;
  };
  c.fillStyle = soft(240, 200, 400, ground, '#7d8a90');
  c.fillRect(0, 0, 480, 480);
  const rx = 120 * width + 18;
  ellipse(240, 470, 190, 110, shirt);
  c.fillStyle = shade;
  c.fillRect(205, 330, 70, 70);
  ellipse(240, 205, rx + 26, 158, hair);
  ellipse(240, 240, rx, 138, soft(225, 215, 190, skin, shade));
  // Hair over the forehead.
  c.beginPath();
  c.ellipse(240, 160, rx + 6, 72, 0, Math.PI, 2 * Math.PI);
  c.fillStyle = hair;
  c.fill();
  ellipse(240 - rx, 245, 13, 28, shade);
  ellipse(240 + rx, 245, 13, 28, shade);
  for (const side of [-1, 1]) {
    const x = 240 + side * rx * 0.45;
    ellipse(x, 222, 34, 24, soft(x, 222, 36, `${shade}cc`, `${shade}00`));
    ellipse(x, 225, 21, 11, '#f6f3ee');
    ellipse(x, 225, 10.5, 10.5, eyes);
    ellipse(x, 225, 5, 5, '#0b0908');
    ellipse(x - 3, 221, 2.6, 2.6, '#ffffff');
    c.strokeStyle = '#2a1a12';
    c.lineWidth = 4;
    c.beginPath();
    c.ellipse(x, 226, 22, 13, 0, 1.08 * Math.PI, 1.92 * Math.PI);
    c.stroke();
    c.strokeStyle = hair;
    c.lineWidth = 8;
    c.beginPath();
    c.ellipse(x, 208, 27, 14, side * 0.08, 1.15 * Math.PI, 1.85 * Math.PI);
    c.stroke();
    ellipse(240 + side * rx * 0.55, 285, 30, 24, soft(240 + side * rx * 0.55, 285, 30, '#d9736644', '#d9736600'));
  }
  // The nose: a shadow at its side and below it.
  c.fillStyle = `${shade}99`;
  c.beginPath();
  c.moveTo(246, 225);
  c.quadraticCurveTo(262, 272, 262, 284);
  c.quadraticCurveTo(244, 296, 222, 285);
  c.quadraticCurveTo(244, 288, 246, 225);
  c.fill();
  ellipse(229, 286, 6, 4, '#5b3524');
  ellipse(252, 286, 6, 4, '#5b3524');
  // The mouth.
  c.fillStyle = '#a8484a';
  c.beginPath();
  c.moveTo(202, 324);
  c.quadraticCurveTo(226, 310, 240, 317);
  c.quadraticCurveTo(254, 310, 278, 324);
  c.quadraticCurveTo(240, 352, 202, 324);
  c.fill();
  c.strokeStyle = '#6e2a2e';
  c.lineWidth = 3;
  c.beginPath();
  c.moveTo(204, 324);
  c.quadraticCurveTo(240, 330, 276, 324);
  c.stroke();
  ellipse(240, 352, 40, 8, `${shade}66`);
  return canvas.toDataURL('image/png').split(',')[1]!;
}
