import { Icon } from './icon.tsx';

export interface PictureProps {
  url: string;
  name: string;
  alt: string;
  /** The URL of a chart's data for download. */
  chartUrl: string | null;
}

/** A picture that code has produced. */
export const Picture = ({ url, name, alt, chartUrl }: PictureProps) => (
  <figure className="picture">
    <img src={url} alt={alt} loading="lazy" />
    <figcaption>
      <a href={url} download={name}>
        <Icon name="download" /> Download <span className="visually-hidden">{name}</span>
      </a>
      {chartUrl !== null && (
        <a href={chartUrl} download={`${name}.json`}>
          <Icon name="chart" /> Data<span className="visually-hidden"> of {name}</span>
        </a>
      )}
    </figcaption>
  </figure>
);
